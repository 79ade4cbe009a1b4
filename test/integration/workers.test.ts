import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { defineAgent } from "../../src/agent/define-agent.ts";
import { openTurnq, type AgentLike } from "../../src/app.ts";
import type { EndedHere } from "../../src/queue/worker-context.ts";
import { SILENT } from "../../src/telemetry/log.ts";
import { throwAwayRedis, type ThrowAwayRedis } from "../redis.ts";

const FIXTURES = fileURLToPath(new URL("../fixtures/module", import.meta.url));

let redis: ThrowAwayRedis;
let look: Redis;

beforeAll(async () => {
  redis = await throwAwayRedis();
  look = new Redis(redis.url);
});

afterAll(async () => {
  look.disconnect();
  await redis.stop();
});

/** Connections of turnq to this Redis. */
async function connections(): Promise<number> {
  const list = String(await look.client("LIST"));
  return list.split("\n").filter((line) => / name=turnq/.test(line)).length;
}

describe("workers of one process", () => {
  it("the close of one ends no turn of another that runs the same agent", async () => {
    const file = join(mkdtempSync(join(tmpdir(), "turnq-workers-")), "go");
    const script = [{ say: "waiting" }, { stepEnd: true }, { waitFor: file }, { answer: "done" }];
    const turnq = await openTurnq({
      redis: redis.url,
      agents: [{ name: "mine", type: "module", module: "./scripted.mjs" }],
      baseDir: FIXTURES,
      env: process.env,
    });
    const [first, second] = [turnq.worker(), turnq.worker()];
    await first.start();
    const turn = await turnq.submit({ agent: "mine", input: "wait", options: { script } });
    for await (const event of turn.events()) if (event.type === "step_end") break;
    await second.start();
    expect(await second.close()).toMatchObject({ complete: true });
    writeFileSync(file, "");
    expect(await turn.result({ waitMs: 30_000 })).toMatchObject({ output: "done", attempts: [{ attempt: 1 }] });
    await turnq.close();
    await expect.poll(connections).toBe(0);
    rmSync(dirname(file), { recursive: true });
  });

  it("one that could not start can be started again, and holds up no close", async () => {
    const folder = mkdtempSync(join(tmpdir(), "turnq-workers-"));
    try {
      const turnq = await openTurnq({ redis: redis.url, baseDir: folder, env: process.env });
      const late = turnq.worker({ agents: [{ name: "late", type: "module", module: "./late.mjs" }] });
      await expect(late.start()).rejects.toMatchObject({ code: "config" });
      writeFileSync(
        join(folder, "late.mjs"),
        `export { ScriptedAgent } from ${JSON.stringify(join(FIXTURES, "scripted.mjs"))};`,
      );
      await late.start();
      const never = turnq.worker({ agents: [{ name: "never", type: "module", module: "./never.mjs" }] });
      await expect(never.start()).rejects.toMatchObject({ code: "config" });
      await turnq.close();
      await expect.poll(connections).toBe(0);
      await expect(never.start()).rejects.toMatchObject({ code: "closed" });
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});

it("U05: a worker tells of each attempt that has ended in it, and of usage that it told later", async () => {
  const ended: EndedHere[] = [];
  const after = defineAgent("after", ({ attempt, emit }) => {
    emit.usage({ inputTokens: 3 });
    if (attempt === 1) throw new Error("once more");
    setTimeout(() => emit.usage({ inputTokens: 5 }), 50);
    return Promise.resolve("done");
  });
  const turnq = await openTurnq({ redis: redis.url, agents: [after], env: {} });
  const worker = turnq.worker({ onEnd: (one) => ended.push(one) });
  await worker.start();
  const retry = { backoff: { delayMs: 1 } };
  await turnq.submitMany([{ id: "a", input: "x", retry }], { batch: "late", agents: ["after"] });
  await expect.poll(() => ended).toHaveLength(3);
  const turn = { turn: "late:a:after:1", lane: "after", agent: "after", batch: "late" };
  expect(ended).toMatchObject([
    { ...turn, attempt: 1, first: true, late: false, usage: { inputTokens: 3 } },
    { ...turn, attempt: 2, first: false, late: false, usage: { inputTokens: 3 } },
    { ...turn, attempt: 2, first: false, late: true, usage: { inputTokens: 5 } },
  ]);
  await turnq.close();
});

describe("a worker of which an agent cannot run", () => {
  const agents: readonly AgentLike[] = [
    { name: "echo", type: "echo" },
    { name: "gone", type: "module", module: "./gone.mjs" },
    { name: "bare", type: "command", command: ["no-such-program-at-all"] },
    { name: "keyless", type: "chat", baseUrl: "http://127.0.0.1:9/v1", model: "m", apiKeyEnv: "NO_SUCH_KEY" },
  ];

  it("U01: does not start, names each of them and why, and has stored nothing", async () => {
    const turnq = await openTurnq({ redis: redis.url, baseDir: FIXTURES, env: process.env });
    const error: unknown = await turnq
      .worker({ agents })
      .start()
      .catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "config", message: expect.stringContaining("3 agents of 4 cannot run here") });
    for (const text of ["gone (", "./gone.mjs does not exist", "no-such-program-at-all was not found", "NO_SUCH_KEY"])
      expect(String(error)).toContain(text);
    expect(await turnq.workers.list()).toEqual([]);
    await turnq.refreshAgents();
    expect(turnq.knownAgents().map(({ name }) => name)).not.toContain("echo");
    await turnq.close();
  });

  it("U01: starts when it may do without them, runs the others, and tells what is missing and why", async () => {
    const turnq = await openTurnq({ redis: redis.url, baseDir: FIXTURES, env: process.env });
    const worker = turnq.worker({ agents, allowMissing: true });
    await worker.start();
    const turn = await turnq.submit({ agent: "echo", input: "hello" });
    expect(await turn.result({ waitMs: 30_000 })).toMatchObject({ output: "hello" });
    const { ready, missing } = worker.readiness();
    expect([ready, missing?.map(({ agent }) => agent)]).toEqual([true, ["gone", "bare", "keyless"]]);
    expect(await turnq.workers.list()).toMatchObject([{ agents: ["echo"], missing }]);
    const none = turnq.worker({ agents: agents.slice(1), allowMissing: true });
    await none.start();
    expect(none.readiness()).toMatchObject({ ready: false, reason: "agents_missing" });
    await turnq.close();
    await expect.poll(connections).toBe(0);
  });
});

it("A14: who opens a Redis that evicts is told so in the log, and what to do", async () => {
  const said: unknown[] = [];
  const log = { ...SILENT, error: (facts: object, message: string) => void said.push({ ...facts, message }) };
  const opened = async (policy: string) => {
    await look.config("SET", "maxmemory-policy", policy);
    const turnq = await openTurnq({ redis: redis.url, env: {}, log });
    await turnq.close();
  };
  try {
    await opened("volatile-ttl");
  } finally {
    await opened("noeviction");
  }
  const message = expect.stringContaining("--maxmemory-policy noeviction");
  expect(said).toEqual([{ code: "redis_evicts", policy: "volatile-ttl", message }]);
});
