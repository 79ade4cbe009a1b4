import { Queue } from "bullmq";
import { Redis } from "ioredis";
import { defineAgent, openTurnq } from "../dist/src/index.js";
import { interleaved } from "./figures.mjs";

const noop = defineAgent("noop", () => "done");
const INPUT = "x".repeat(1000);

/** Turns stored per second from a stream, beside BullMQ's addBulk; then a list of 50 among them, and the bytes of each. */
export async function submitTurns({ server, turns, rounds, say }) {
  const count = turns * 4;
  const { turnq, raw } = await interleaved(
    rounds,
    () => ours(server, count),
    () => bare(server, count),
  );
  const rows = [
    {
      name: "submit, 1 KB",
      unit: "turns/s",
      turnq: turnq.perSecond,
      raw: raw.perSecond,
      ratio: turnq.perSecond / raw.perSecond,
      detail: { turnq, raw },
    },
    {
      name: "bytes in Redis per waiting turn, 1 KB",
      unit: "B",
      turnq: turnq.bytes,
      raw: raw.bytes,
      ratio: turnq.bytes / raw.bytes,
    },
    { name: `list 50 of ${count}`, unit: "ms", turnq: turnq.listMs },
  ];
  rows.forEach(say);
  return rows;
}

async function ours(server, count) {
  await server.clear();
  const turnq = await openTurnq({ redis: server.url, agents: [noop] });
  async function* requests() {
    for (let i = 0; i < count; i++) yield { id: `t${i}`, agent: "noop", input: INPUT };
  }
  const before = await server.figures();
  const startedMs = performance.now();
  for await (const _stored of turnq.store(requests()));
  const ms = performance.now() - startedMs;
  const after = await server.figures();
  const listedMs = performance.now();
  let listed = 0;
  for await (const _row of turnq.turns.list({ state: "waiting" })) if (++listed === 50) break;
  const listMs = performance.now() - listedMs;
  await turnq.close();
  return {
    perSecond: (count * 1000) / ms,
    bytes: (after.memory - before.memory) / count,
    redisUs: ((after.cpuMs - before.cpuMs) * 1000) / count,
    listMs,
  };
}

async function bare(server, count) {
  await server.clear();
  const connection = new Redis(server.url, { maxRetriesPerRequest: null });
  const queue = new Queue("raw", { connection });
  const before = await server.figures();
  const startedMs = performance.now();
  for (let at = 0; at < count; at += 100)
    await queue.addBulk(
      Array.from({ length: 100 }, (_, i) => ({ name: "noop", data: { input: INPUT }, opts: { jobId: `j${at + i}` } })),
    );
  const ms = performance.now() - startedMs;
  const after = await server.figures();
  await queue.close();
  connection.disconnect();
  return {
    perSecond: (count * 1000) / ms,
    bytes: (after.memory - before.memory) / count,
    redisUs: ((after.cpuMs - before.cpuMs) * 1000) / count,
    listMs: 0,
  };
}
