import { readFileSync } from "node:fs";
import { Redis } from "ioredis";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CUT_NOTE } from "../../../src/domain/text.ts";
import { openTurnq, type AgentLike } from "../../../src/app.ts";
import type { Turnq } from "../../../src/turnq.ts";
import { throwAwayRedis, type ThrowAwayRedis } from "../../redis.ts";

/** How much each program prints, in MB: some times what is kept of it. */
const FLOOD_MB = 40;
/** What a flood may cost this process, in MB: the transcript is 8 Mi characters, in several copies, and streams have buffers. */
const MEMORY_MB = 400;

let server: ThrowAwayRedis;
let turnq: Turnq;
beforeAll(async () => {
  server = await throwAwayRedis({ appendfsync: "no" });
  turnq = await openTurnq({ redis: server.url });
});
afterAll(async () => {
  await turnq.close();
  await server.stop();
});

const PRINT = `
  const fs = require("node:fs");
  const chunk = Buffer.alloc(1e6, process.argv[2]);
  if (process.argv[3] === "lines") for (let i = 79; i < chunk.length; i += 80) chunk[i] = 10;
  const fd = Number(process.argv[1]);
  for (let mb = 0; mb < ${FLOOD_MB}; mb += 1)
    for (let at = 0; at < chunk.length; ) try { at += fs.writeSync(fd, chunk, at) } catch (e) { if (e.code !== "EAGAIN") throw e }
`;
const floods: Readonly<Record<string, AgentLike>> = {
  "one line, as text": flood("text-line", ["1", "x"], "text"),
  "lines, as text": flood("text-lines", ["1", "x", "lines"], "text"),
  "one line, as events": flood("events-line", ["1", "x"], "events"),
  "lines that are no events": flood("events-lines", ["1", "x", "lines"], "events"),
  "on stderr": flood("stderr", ["2", "x"], "text"),
};

function flood(name: string, args: readonly string[], output: "text" | "events"): AgentLike {
  return { name, type: "command", command: [process.execPath, "-e", PRINT, ...args], output, input: "text" };
}

/** Resident memory of this process at its height, in MB. */
function peakMb(): number {
  return Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync("/proc/self/status", "utf8"))?.[1] ?? 0) / 1024;
}

test("invariant 12, C17, D01: a flood on stdout or stderr costs neither the worker's memory nor Redis", async () => {
  const worker = turnq.worker({ agents: Object.values(floods), concurrency: 2 });
  await worker.start();
  await turnq.refreshAgents();
  const before = peakMb();
  const turns = await Promise.all(
    Object.values(floods).map(({ name }) =>
      turnq.submit({ agent: name, input: "x", retry: { backoff: { delayMs: 1 }, maxAttempts: 1 } }),
    ),
  );
  const results = await Promise.all(turns.map((turn) => turn.result({ waitMs: 100_000 })));
  const [line, lines, noEvent, noEvents, stderr] = results;
  for (const cut of [line, lines]) {
    expect(cut).toMatchObject({ ok: true, attempts: [{ attempt: 1 }] });
    expect(cut?.output.endsWith(CUT_NOTE)).toBe(true);
    expect(cut?.output.length).toBeLessThanOrEqual(8 * 1024 * 1024 + 100);
  }
  expect(noEvent).toMatchObject({ ok: false, failure: { code: "output_too_large" }, attempts: [{ attempt: 1 }] });
  expect(noEvents).toMatchObject({ ok: false, failure: { code: "agent_crash" } });
  expect(stderr).toMatchObject({ ok: true, output: "" });
  const grownMb = peakMb() - before;
  const used = Number(/used_memory:(\d+)/.exec(await memoryInfo())?.[1]) / 1e6;
  if (process.platform === "linux") expect(grownMb).toBeLessThan(MEMORY_MB);
  expect(used).toBeLessThan(60);
  await worker.close();
});

async function memoryInfo(): Promise<string> {
  const redis = new Redis(server.url);
  const info = await redis.info("memory");
  redis.disconnect();
  return info;
}
