import { Redis } from "ioredis";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { openTurnq, type AgentLike } from "../../src/app.ts";
import { defineAgent } from "../../src/agent/define-agent.ts";
import { STORE_KEYS } from "../../src/ledger/keys.ts";
import type { Turnq, WorkerOptions } from "../../src/turnq.ts";
import { throwAwayRedis, type ThrowAwayRedis } from "../redis.ts";

let redis: ThrowAwayRedis;
let look: Redis;
let turnq: Turnq;

beforeAll(async () => {
  redis = await throwAwayRedis({ appendfsync: "no" });
  look = new Redis(redis.url);
  turnq = await openTurnq({ redis: redis.url, env: process.env });
});
afterEach(async () => {
  await look.flushall();
});
afterAll(async () => {
  await turnq.close();
  look.disconnect();
  await redis.stop();
});

const named = (name: string): AgentLike => defineAgent(name, () => "x");

describe("what a worker is given is checked before anything is stored", () => {
  const wrong: readonly (readonly [string, WorkerOptions])[] = [
    ["a name with a colon", { agents: [named("team:support")] }],
    ["an empty name", { agents: [named("")] }],
    ["a name with a blank", { agents: [named("a b")] }],
    ["a name that every object has", { agents: [named("__proto__")] }],
    ["a wrong lane of an agent", { agents: [defineAgent("a", () => "x", { lane: "a:b" })] }],
    ["wrong limits of an agent", { agents: [defineAgent("a", () => "x", { limits: { timeoutMs: -1 } })] }],
    ["a wrong lane", { agents: [named("a")], lanes: ["a:b"] }],
    ["an agent that is none", { agents: [null as never] }],
    ["an agent without a type", { agents: [{ name: "a" } as never] }],
    ["an agent of an unknown type", { agents: [{ name: "a", type: "nope" } as never] }],
    ["a simulated agent", { agents: [{ name: "a", type: "sim" } as never] }],
    ...[0, -1, 0.5, Number.NaN, Number.POSITIVE_INFINITY, "3"].map(
      (concurrency) =>
        [`a concurrency of ${concurrency}`, { agents: [named("a")], concurrency: concurrency as never }] as const,
    ),
    ["a lane's concurrency of 0", { agents: [named("a")], laneConcurrency: { a: 0 } }],
    ["a rate of 0", { agents: [named("a")], laneLimits: { a: { requestsPerMinute: 0 } } }],
    ["half a token a minute", { agents: [named("a")], laneLimits: { a: { tokensPerMinute: 0.5 } } }],
    ["an age of 0", { agents: [named("a")], retention: { maxAgeMs: 0 } }],
    ["an age in words", { agents: [named("a")], retention: { maxAgeMs: "7d" as never } }],
    ["a negative number of turns", { agents: [named("a")], retention: { maxSettled: -1 } }],
  ];

  it.each(wrong)("%s is a wrong config", async (_what, options) => {
    const worker = turnq.worker(options);
    await expect(worker.start()).rejects.toMatchObject({ code: "config" });
    await worker.close();
    expect(await look.smembers(STORE_KEYS.lanes)).toEqual([]);
    expect(await look.exists(STORE_KEYS.agents)).toBe(0);
  });

  it("a close with a limit that is none is refused, and another one closes", async () => {
    const worker = turnq.worker({ agents: [named("a")] });
    await worker.start();
    for (const limitMs of [Number.NaN, -1])
      await expect(worker.close({ limitMs })).rejects.toMatchObject({ code: "config" });
    expect(await worker.close({ limitMs: Number.POSITIVE_INFINITY })).toMatchObject({ complete: true });
  });
});

describe("names that every object has", () => {
  it.each(["constructor", "toString", "hasOwnProperty", "valueOf"])("%s names an agent and its lane", async (name) => {
    const worker = turnq.worker({ agents: [named(name)], laneConcurrency: {}, laneLimits: {}, concurrency: 2 });
    await worker.start();
    const turn = await turnq.submit({ agent: name, input: "q" });
    expect(await turn.result({ waitMs: 20_000 })).toMatchObject({ ok: true, output: "x" });
    await worker.close();
  });
});

it("what stands among the lanes and cannot be one hides no other", async () => {
  await look.sadd(STORE_KEYS.lanes, "team:support", "", "a b");
  const worker = turnq.worker({ agents: [named("a")] });
  await worker.start();
  const turn = await turnq.submit({ agent: "a", input: "q", id: "t1" });
  await turn.result({ waitMs: 20_000 });
  expect((await turnq.lanes.list()).map(({ lane }) => lane)).toEqual(["a"]);
  expect((await turnq.turn("t1")).lane).toBe("a");
  await worker.close();
});

it("an agent in the words of a configuration has its defaults, also in a program", async () => {
  const worker = turnq.worker({ agents: [{ name: "cmd", type: "command", command: ["sh", "-c", "printf hi"] }] });
  await worker.start();
  const turn = await turnq.submit({ agent: "cmd", input: "x" });
  expect(await turn.result({ waitMs: 20_000 })).toMatchObject({ ok: true, output: "hi", attempts: [{ attempt: 1 }] });
  await worker.close();
});

it("calls with what is none of their arguments are refused by what is wrong", async () => {
  const worker = turnq.worker({ agents: [named("a")] });
  await worker.start();
  const turn = await turnq.submit({ agent: "a", input: "q", id: "t1" });
  await turn.result({ waitMs: 20_000 });
  const refused = { code: "invalid_request" };
  for (const after of [Number.NaN, -5, 0.5]) await expect(turn.events({ after }).next()).rejects.toMatchObject(refused);
  await expect(turnq.submitMany([], undefined as never)).rejects.toMatchObject(refused);
  await expect(turnq.submitMany(null as never, { batch: "b" })).rejects.toMatchObject(refused);
  expect(await turn.cancel({ reason: 5 as never })).toEqual({ kind: "already" });
  expect(await turnq.retry("t1")).toMatchObject({ generation: 2 });
  await worker.close();
});
