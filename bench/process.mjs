import { Queue, Worker } from "bullmq";
import { Redis } from "ioredis";
import { defineAgent, openTurnq } from "../dist/src/index.js";
import { interleaved, until } from "./figures.mjs";

let ran = 0;
const noop = defineAgent("noop", () => {
  ran += 1;
  return "done";
});

/** No-op turns per second beside raw BullMQ's no-op jobs, with the CPU and the script calls of each. */
export async function processTurns({ server, turns, rounds, say }) {
  const rows = [];
  for (const concurrency of [1, 10, 50, 200]) {
    const count = concurrency === 1 ? Math.ceil(turns / 5) : turns;
    const { turnq, raw } = await interleaved(
      rounds,
      () => ours(server, count, concurrency),
      () => bare(server, count, concurrency),
    );
    rows.push({
      name: `no-op turns, concurrency ${concurrency}`,
      unit: "turns/s",
      turnq: turnq.perSecond,
      raw: raw.perSecond,
      ratio: turnq.perSecond / raw.perSecond,
      detail: { turnq, raw },
    });
    say(rows.at(-1));
  }
  return rows;
}

async function ours(server, count, concurrency) {
  await server.clear();
  const turnq = await openTurnq({ redis: server.url, agents: [noop] });
  const items = Array.from({ length: count }, (_, i) => ({ id: `t${i}`, agent: "noop", input: "x" }));
  async function* requests() {
    for (const item of items) yield item;
  }
  for await (const _stored of turnq.store(requests()));
  const worker = turnq.worker({ concurrency });
  ran = 0;
  const measured = await measure(server, count, async () => {
    await worker.start();
    // Redis is asked only at the end, so that the asking is no part of what is measured.
    await until(() => ran === count);
    await until(async () => (await turnq.lanes.list())[0]?.states.settled === count, 10);
  });
  await worker.close();
  await turnq.close();
  return measured;
}

async function bare(server, count, concurrency) {
  await server.clear();
  const connection = new Redis(server.url, { maxRetriesPerRequest: null });
  const queue = new Queue("raw", { connection });
  const jobs = Array.from({ length: count }, (_, i) => ({
    name: "noop",
    data: { input: "x" },
    opts: { jobId: `j${i}` },
  }));
  for (let at = 0; at < jobs.length; at += 500) await queue.addBulk(jobs.slice(at, at + 500));
  let done = 0;
  const worker = new Worker("raw", async () => ({ ok: true }), { connection, concurrency, autorun: false });
  worker.on("completed", () => (done += 1));
  const measured = await measure(server, count, async () => {
    void worker.run();
    await until(() => done === count);
  });
  await worker.close();
  await queue.close();
  connection.disconnect();
  return measured;
}

async function measure(server, count, work) {
  const before = await server.figures();
  const cpu = process.cpuUsage();
  const startedMs = performance.now();
  await work();
  const ms = performance.now() - startedMs;
  const { user, system } = process.cpuUsage(cpu);
  const after = await server.figures();
  return {
    perSecond: (count * 1000) / ms,
    nodeUs: (user + system) / count,
    redisUs: ((after.cpuMs - before.cpuMs) * 1000) / count,
    scriptsPerTurn: (after.scripts - before.scripts) / count,
    commandsPerTurn: (after.commands - before.commands) / count,
    readsPerTurn: (after.reads - before.reads) / count,
    redisBytes: (after.memory - before.memory) / count,
  };
}
