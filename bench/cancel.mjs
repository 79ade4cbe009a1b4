import { setTimeout as sleep } from "node:timers/promises";
import { defineAgent, openTurnq } from "../dist/src/index.js";
import { quantile, until } from "./figures.mjs";

/** From `cancel` in one client to `shouldStop` in the agent. */
export async function cancelTurns({ server, turns, say }) {
  await server.clear();
  const told = new Map();
  const patient = defineAgent("patient", async ({ turn, shouldStop }) => {
    told.set(turn, undefined);
    while (shouldStop() === undefined) await sleep(1);
    told.set(turn, performance.now());
    return "stopped";
  });
  const working = await openTurnq({ redis: server.url, agents: [patient] });
  const asking = await openTurnq({ redis: server.url });
  const worker = working.worker({ concurrency: 50 });
  await worker.start();
  const waits = [];
  for (let i = 0; i < Math.min(200, turns); i++) {
    const { id } = await working.submit({ agent: "patient", input: "x" });
    await until(() => told.has(id), 1);
    const turn = await asking.turn(id);
    const askedMs = performance.now();
    await turn.cancel();
    await until(() => told.get(id) !== undefined, 1);
    waits.push(told.get(id) - askedMs);
  }
  await worker.close();
  await Promise.all([working.close(), asking.close()]);
  const row = {
    name: `cancel to shouldStop, n ${waits.length}`,
    unit: "ms",
    turnq: quantile(waits, 0.99),
    detail: { p50: quantile(waits, 0.5), p99: quantile(waits, 0.99) },
  };
  say(row);
  return [row];
}
