import { deflateSync } from "node:zlib";
import { afterAll, beforeAll, expect, test } from "vitest";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { scriptedAgent } from "../../../src/agents/scripted/scripted-agent.ts";
import { laneKey, laneTag } from "../../../src/ledger/keys.ts";
import { throwAwayRedis, type ThrowAwayRedis } from "../../redis.ts";
import { dump } from "../../twice.ts";
import { Gate, Scene, until } from "./scene.ts";

let server: ThrowAwayRedis;
let scene: Scene;
beforeAll(async () => {
  server = await throwAwayRedis({ appendfsync: "no" });
  scene = await Scene.open(server.url);
});
afterAll(async () => {
  await scene.close();
  await server.stop();
});

test("stray jobs end at once and touch nothing, whatever they are called", async () => {
  let runs = 0;
  const agent = defineAgent("stray", () => {
    runs += 1;
    return "x";
  });
  await scene.worker([agent]);
  const queue = scene.queue("stray");
  const before = [...(await dump(scene.redis, `${laneTag("stray")}/`))].filter(([key]) => !key.endsWith("/lane"));
  const jobs = [
    await queue.add("stray", { v: 1, turn: "t1", agent: "stray", input: "forged" }, { jobId: "t1" }),
    await queue.add("stray", {}),
    await queue.add("an agent that nobody has", { turn: "t1" }, { jobId: "other" }),
  ];
  for (const job of jobs) {
    expect(await scene.told("stray", job.id ?? "")).toBe("completed");
    expect((await queue.getJob(job.id ?? ""))?.returnvalue).toMatchObject({ stray: true });
  }
  expect([...(await dump(scene.redis, `${laneTag("stray")}/`))].filter(([key]) => !key.endsWith("/lane"))).toEqual(
    before,
  );
  expect(runs).toBe(0);
});

test("a turn whose agent this worker does not have waits for one that has it", async () => {
  await scene.publish(
    defineAgent("mine", () => "x", { lane: "shared" }),
    defineAgent("theirs", () => "y", { lane: "shared" }),
  );
  await scene.worker([defineAgent("mine", () => "mine", { lane: "shared" })]);
  const turn = await scene.turnq.submit({ agent: "theirs", input: "x", id: "t1" });
  await until(async () => Number(await scene.redis.hget(scene.bull("shared", "t1"), "ats")) >= 1);
  await scene.worker([defineAgent("theirs", () => "theirs", { lane: "shared" })]);
  expect(await turn.result({ waitMs: 20_000 })).toMatchObject({ output: "theirs", attempts: [{ attempt: 1 }] });
  await scene.check("shared");
});

test("D16: corrupt requests among 40 turns end as failed, are listed, and do not stop the others", async () => {
  const agent = defineAgent("corrupt", ({ text }) => text);
  await scene.publish(agent);
  const items = Array.from({ length: 40 }, (_, i) => ({ id: `s${i}`, input: `in ${i}` }));
  const batch = await scene.turnq.submitMany(items, { batch: "cb", agents: ["corrupt"] });
  const id = (i: number): string => `cb:s${i}:corrupt:1`;
  const request = (i: number): string => laneKey("corrupt", "request", id(i));
  await scene.redis.set(request(3), "not JSON");
  await scene.redis.set(request(4), "");
  await scene.redis.set(request(5), Buffer.from([0x78, 1, 2, 3]));
  await scene.redis.set(request(6), deflateSync(Buffer.from('{"v":9}')));
  await scene.redis.del(request(7));
  await scene.worker([agent]);
  const lines = [];
  for await (const line of batch.results({ follow: true })) lines.push(line);
  const bad = [3, 4, 5, 6, 7].map(id);
  // A request that is gone altogether leaves nothing to make a line of.
  expect(lines.map(({ turn }) => turn).toSorted()).toEqual(
    items
      .map((_, i) => id(i))
      .filter((turn) => turn !== id(7))
      .toSorted(),
  );
  for (const line of lines) {
    if (!bad.includes(line.turn)) expect(line).toMatchObject({ ok: true, status: "completed" });
    else
      expect(line).toMatchObject({
        ok: false,
        status: "failed",
        batch: "cb",
        agent: expect.any(String),
        error: expect.stringMatching(/stored request/),
      });
  }
  expect(await batch.progress()).toMatchObject({
    outcomes: { ok: 35, failed: 5 },
    attempts: 40,
    states: { settled: 40 },
  });
  for (const turn of bad) expect(await scene.told("corrupt", turn.replaceAll(":", "+"))).toBe("failed");
  await scene.check("corrupt");
});

test("D16: a session whose messages are corrupt ends its turns as failed, one after the other", async () => {
  const agent = defineAgent("torn", ({ text }) => text);
  await scene.publish(agent);
  await scene.redis.rpush(laneKey("torn", "messages", "s"), "not JSON");
  await scene.redis.hset(laneKey("torn", "session", "s"), "iteration", 1);
  const turns = [
    await scene.turnq.submit({ agent: "torn", input: "a", session: "s" }),
    await scene.turnq.submit({ agent: "torn", input: "b", session: "s" }),
    await scene.turnq.submit({ agent: "torn", input: "c" }),
  ];
  await scene.worker([agent]);
  const results = await Promise.all(turns.map((turn) => turn.result({ waitMs: 20_000 })));
  expect(results.map(({ ok }) => ok)).toEqual([false, false, true]);
  await scene.check("torn");
});

test("D16: corrupt records and Results are shown as such, and what goes on does not depend on them", async () => {
  const gate = new Gate();
  const agent = defineAgent("record", async ({ attempt }) => {
    if (attempt === 1) throw new Error("boom");
    await gate.opened;
    return "fine";
  });
  await scene.worker([agent]);
  const batch = { id: "rb", sample: "1", epoch: 1 };
  const turn = await scene.turnq.submit({
    agent: "record",
    input: "x",
    batch,
    retry: { backoff: { delayMs: 1 } },
  });
  await until(async () => (await scene.ledger("record").row(turn.id))?.attempt === 2);
  await scene.redis.set(laneKey("record", "record", turn.id, 1), "garbage");
  gate.open();
  const result = await turn.result({ waitMs: 20_000 });
  expect(result).toMatchObject({ ok: true, output: "fine" });
  expect(await scene.told("record", turn.id)).toBe("completed");
  await expect(scene.ledger("record").attempt(turn.id, 1)).rejects.toMatchObject({ code: "corrupt" });

  await scene.redis.set(laneKey("record", "result", turn.id, 1), "garbage");
  await expect(turn.result({ waitMs: 1000 })).rejects.toMatchObject({ code: "corrupt" });
  const lines = [];
  for await (const line of scene.turnq.batch("rb").results()) lines.push(line);
  expect(lines).toMatchObject([
    { turn: turn.id, ok: false, usage: result.usage, error: expect.stringMatching(/stored result cannot be read/) },
  ]);
  await scene.check("record");
});

test("a settled turn whose Result cannot be read is told all the same, and not run again", async () => {
  let runs = 0;
  const agent = defineAgent("unread", () => {
    runs += 1;
    return "x";
  });
  await scene.worker([agent]);
  const turn = await scene.turnq.submit({ agent: "unread", input: "x", id: "t1" });
  await turn.result({ waitMs: 20_000 });
  await scene.told("unread", "t1");
  await scene.redis.set(laneKey("unread", "result", "t1", 1), "garbage");
  // As if BullMQ had not been told: the finished job stands in wait again.
  await scene.redis
    .multi()
    .hdel(scene.bull("unread", "t1"), "told", "finishedOn", "returnvalue")
    .zrem(scene.bull("unread", "completed"), "t1")
    .exec();
  await scene.stall("unread", "t1");
  await scene.told("unread", "t1");
  expect((await scene.queue("unread").getJob("t1"))?.returnvalue).toMatchObject({ ok: false });
  expect(runs).toBe(1);
});

test("a request for an agent that the worker does not have, under the name of one it has, ends as a refused configuration", async () => {
  await scene.publish(defineAgent("renamed", () => "x"));
  const turn = await scene.turnq.submit({ agent: "renamed", input: "x", id: "t1" });
  await scene.redis.hset(scene.bull("renamed", "t1"), "name", "known");
  await scene.worker([defineAgent("known", () => "x", { lane: "renamed" })]);
  expect(await turn.result({ waitMs: 20_000 })).toMatchObject({
    ok: false,
    status: "failed",
    failure: { code: "config" },
    error: expect.stringContaining("renamed"),
  });
  await scene.check("renamed");
});

test("a delivery that breaks off for a fault of ours does not end the turn: it is run when it comes again", async () => {
  const agent = scriptedAgent("fault");
  const { redis } = await scene.worker([agent]);
  const begin = Reflect.get(redis, "turnq_beginBuffer") as (...args: unknown[]) => Promise<unknown>;
  let faults = 0;
  Reflect.set(redis, "turnq_beginBuffer", (...args: unknown[]) => {
    faults += 1;
    return faults <= 5 ? Promise.reject(new Error("a fault of ours")) : begin.apply(redis, args);
  });
  const turn = await scene.turnq.submit({ agent: "fault", input: "x", id: "t1" });
  await until(() => faults === 5);
  await until(async () => (await scene.redis.lrange(scene.bull("fault", "active"), 0, -1)).includes("t1"));
  await scene.stall("fault", "t1");
  expect(await turn.result({ waitMs: 20_000 })).toMatchObject({ ok: true, output: "x" });
  await scene.check("fault");
});

test("figures that no one can have spent, attempt after attempt and turn after turn, stop no turn from ending", async () => {
  const most = Number.MAX_SAFE_INTEGER;
  const agent = defineAgent("vast", ({ emit, attempt, text }) => {
    emit.usage({
      inputTokens: most,
      outputTokens: text === "over" ? 1e300 : most,
      costUsd: text === "over" ? 1e308 : 1e6,
    });
    if (attempt < 3) throw new Error("once more");
    return "done";
  });
  await scene.publish(agent);
  const items = Array.from({ length: 4 }, (_, i) => ({ id: `s${i}`, input: i === 0 ? "over" : "most" }));
  const retry = { backoff: { delayMs: 1 } };
  const batch = await scene.turnq.submitMany(
    items.map((item) => ({ ...item, retry })),
    { batch: "vb", agents: ["vast"] },
  );
  // As far as Redis can count.
  await scene.redis.hset(laneKey("vast", "batch", "vb"), "u:inputTokens", "9223372036854775000");
  await scene.worker([agent]);
  const results = [];
  for await (const line of batch.results({ follow: true })) results.push(line);
  expect(results.map(({ ok, attempts }) => [ok, attempts.length])).toEqual(items.map(() => [true, 3]));
  for (const { turn, usage } of results)
    expect(usage).toMatchObject(
      turn === "vb:s0:vast:1"
        ? { inputTokens: most, known: "partial" }
        : { inputTokens: most, outputTokens: most, costUsd: 3e6 },
    );
  expect(results.find(({ turn }) => turn === "vb:s0:vast:1")?.usage).not.toHaveProperty("costUsd");
});
