import { defineAgent, openTurnq } from "../dist/src/index.js";
import { until } from "./figures.mjs";

/** Memory of a worker with many turns in flight that wait for I/O. */
export async function turnsInFlight({ server, turns, say }) {
  await server.clear();
  const count = turns >= 5000 ? 10_000 : turns;
  let running = 0;
  let release = () => undefined;
  const released = new Promise((resolve) => (release = resolve));
  const waiting = defineAgent("waiting", async () => {
    running += 1;
    await released;
    return "done";
  });
  const turnq = await openTurnq({ redis: server.url, agents: [waiting] });
  async function* requests() {
    for (let i = 0; i < count; i++) yield { id: `t${i}`, agent: "waiting", input: "x" };
  }
  for await (const _stored of turnq.store(requests()));
  const before = process.memoryUsage().rss;
  const worker = turnq.worker({ concurrency: count });
  await worker.start();
  await until(() => running === count, 20);
  const { rss } = process.memoryUsage();
  release();
  await until(async () => (await turnq.lanes.list())[0]?.states.settled === count, 50);
  await worker.close();
  await turnq.close();
  const row = {
    name: `memory with ${count} turns in flight`,
    unit: "MB",
    turnq: rss / 1e6,
    detail: { beforeMb: before / 1e6, kbPerTurn: (rss - before) / 1000 / count },
  };
  say(row);
  return [row];
}
