import { afterAll, beforeAll, expect, test } from "vitest";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { scriptedAgent } from "../../../src/agents/scripted/scripted-agent.ts";
import { throwAwayRedis, type ThrowAwayRedis } from "../../redis.ts";
import { closing, testRecord } from "../../lane.ts";
import { Gate, QUICK, Scene, until } from "./scene.ts";
import { installProbe } from "../../../src/pause/effect.ts";
import { SILENT } from "../../../src/telemetry/log.ts";

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

test("invariant 1: one Result, and an explicit retry opens a new generation and keeps the old one", async () => {
  let runs = 0;
  const agent = defineAgent("count", () => {
    runs += 1;
    if (runs === 1) throw new Error("boom");
    return `run ${runs}`;
  });
  await scene.worker([agent]);
  const batch = { id: "b1", sample: "1", epoch: 1 };
  const turn = await scene.turnq.submit({ agent: "count", input: "x", batch, retry: { maxAttempts: 1 } });
  const first = await turn.result({ waitMs: 20_000 });
  expect(first).toMatchObject({ ok: false, status: "crashed", generation: 1, error: "boom" });
  const again = await scene.turnq.submit({ agent: "count", input: "x", batch });
  expect(again.duplicate).toBe(true);
  expect(await again.result()).toEqual(first);

  expect(await scene.turnq.batch("b1").retry()).toBe(1);
  const second = await until(async () => {
    const result = await turn.result({ waitMs: 20_000 });
    return result.generation === 2 ? result : undefined;
  });
  expect(second).toMatchObject({ ok: true, output: "run 2", attempts: [{ attempt: 2 }] });
  expect(await scene.ledger("count").result(turn.id, 1)).toEqual(first);
  expect(runs).toBe(2);
  expect(await scene.turnq.batch("b1").retry()).toBe(0);
  expect(await scene.told("count", `${turn.id}~2`)).toBe("completed");
  expect(await scene.told("count", turn.id)).toBe("failed");
  await scene.check("count");
});

test("a retry from another BullMQ tool opens a generation, for completed and for failed jobs", async () => {
  let runs = 0;
  const agent = defineAgent("board", () => {
    runs += 1;
    if (runs % 2 === 0) throw new Error("even");
    return `run ${runs}`;
  });
  await scene.worker([agent]);
  const turn = await scene.turnq.submit({ agent: "board", input: "x", id: "t1", retry: { maxAttempts: 1 } });
  expect(await turn.result({ waitMs: 20_000 })).toMatchObject({ generation: 1, output: "run 1" });
  for (const [state, generation] of [
    ["completed", 2],
    ["failed", 3],
  ] as const) {
    expect(await scene.told("board", "t1")).toBe(state);
    const job = await scene.queue("board").getJob("t1");
    await job?.retry(state);
    const result = await until(async () => scene.ledger("board").result("t1", generation));
    expect(result).toMatchObject({ generation, ok: generation === 3 });
  }
  expect(await scene.told("board", "t1")).toBe("completed");
  expect(runs).toBe(3);
  expect(await scene.ledger("board").result("t1", 1)).toMatchObject({ output: "run 1" });
  await scene.check("board");
});

test("A55: a settled turn that is delivered again, since BullMQ was not told, is told and not run", async () => {
  let runs = 0;
  const gate = new Gate();
  const agent = defineAgent("again", async () => {
    runs += 1;
    await gate.opened;
    return "once";
  });
  await scene.worker([agent]);
  const turn = await scene.turnq.submit({ agent: "again", input: "x", id: "t1" });
  await until(() => runs === 1);
  // The lock is lost, so that the finish is refused; the settle is not BullMQ's affair.
  await scene.redis.del(scene.bull("again", "t1:lock"));
  gate.open();
  const result = await turn.result({ waitMs: 20_000 });
  expect(await scene.redis.hget(scene.bull("again", "t1"), "told")).toBeNull();
  await scene.stall("again", "t1");
  expect(await scene.told("again", "t1")).toBe("completed");
  const job = await scene.queue("again").getJob("t1");
  expect(job?.returnvalue).toEqual(result);
  expect(runs).toBe(1);
  await scene.check("again");
});

test("C33, invariant 4: fenced, a worker whose lease was taken over: its output is refused, its spend is booked once", async () => {
  const gate = new Gate();
  const started = new Gate();
  const slow = defineAgent("fenced", async ({ attempt, emit }) => {
    emit.usage({ inputTokens: 100 * attempt, outputTokens: 1 });
    if (attempt > 1) return "of the second";
    started.open();
    await gate.opened;
    emit.usage({ inputTokens: 1000, outputTokens: 1 });
    return "of the first";
  });
  await scene.publish(slow);
  const turn = await scene.turnq.submit({
    agent: "fenced",
    input: "x",
    batch: { id: "fb", sample: "1", epoch: 1 },
    limits: { graceMs: 60_000 },
    retry: { backoff: { delayMs: 1 } },
  });
  // The first worker renews nothing, its agent goes on, and its one slot is taken.
  const first = await scene.worker([slow], {
    id: "first",
    concurrency: 1,
    leases: { ...QUICK, renewEveryMs: 3_600_000 },
  });
  await started.opened;
  await until(
    async () => (await scene.ledger("fenced").events(turn.id, 1, 0))?.events.some(({ type }) => type === "usage"),
    "the flush of the usage",
  );
  const second = await scene.worker([slow], { id: "second", leases: QUICK });
  await scene.stall("fenced", turn.id);
  const result = await turn.result({ waitMs: 20_000 });
  expect(result).toMatchObject({
    ok: true,
    output: "of the second",
    usage: { inputTokens: 300, outputTokens: 2, modelCalls: 2 },
  });
  expect(result.attempts.map(({ status, worker }) => [status, worker])).toEqual([
    ["lost", "first"],
    ["completed", "second"],
  ]);
  gate.open();
  const late = await until(async () => (await scene.ledger("fenced").facts(turn.id)).attempts[0]?.late);
  expect(late).toMatchObject({ inputTokens: 1000, outputTokens: 1, modelCalls: 1 });
  expect(await turn.result()).toEqual(result);
  expect(await scene.ledger("fenced").batchCounts("fb")).toMatchObject({
    usage: { inputTokens: 1300, outputTokens: 3 },
    attempts: 2,
    crashedAttempts: 1,
  });
  expect((await scene.ledger("fenced").attempt(turn.id, 1))?.record).toMatchObject({ status: "lost", crashed: true });
  expect(await scene.told("fenced", turn.id)).toBe("completed");
  await first.close();
  await second.close();
  await scene.check("fenced");
});

test.each(["answered", "been killed at its deadline"])(
  "invariant 3: usage that a function tells when it has %s is booked beside the Result",
  async (how) => {
    const gate = new Gate();
    const lane = how === "answered" ? "late" : "overdue";
    const agent = defineAgent(lane, async ({ emit }) => {
      emit.usage({ inputTokens: 1 });
      const rest = gate.opened.then(() => {
        emit.usage({ inputTokens: 100 });
        emit.usage({ inputTokens: 1000 });
      });
      if (how !== "answered") await rest;
      return "x";
    });
    const worker = await scene.worker([agent]);
    const batch = { id: `${lane}b`, sample: "s", epoch: 1 };
    const limits = how === "answered" ? {} : { timeoutMs: 300 };
    const turn = await scene.turnq.submit({ agent: lane, input: "x", batch, limits });
    const result = await turn.result({ waitMs: 20_000 });
    expect(result).toMatchObject({ ok: how === "answered", usage: { inputTokens: 1 } });
    gate.open();
    const booked = await until(async () => {
      const late = (await scene.ledger(lane).facts(turn.id)).attempts[0]?.late;
      return late?.inputTokens === 1100 ? late : undefined;
    }, "all of it booked");
    expect(booked).toMatchObject({ inputTokens: 1100, modelCalls: 2 });
    expect(await turn.result()).toEqual(result);
    expect(await scene.ledger(lane).batchCounts(batch.id)).toMatchObject({ usage: { inputTokens: 1101 } });
    await worker.close();
    await scene.check(lane);
  },
);

test("invariant 12: usage that a function tells when its worker has closed is missed in the log, and asked for no more", async () => {
  const gate = new Gate();
  const said: string[] = [];
  const hear = (_facts: object, message: string): void => void said.push(message);
  const agent = defineAgent("orphan", ({ emit }) => {
    void gate.opened.then(() => emit.usage({ inputTokens: 100 }));
    return "x";
  });
  const worker = await scene.worker([agent], { log: { ...SILENT, warn: hear, error: hear } });
  const turn = await scene.turnq.submit({ agent: "orphan", input: "x" });
  await turn.result({ waitMs: 20_000 });
  await worker.close();
  gate.open();
  await until(() => said.length > 0, "a word in the log");
  expect(said).toEqual(["usage that was told late is not booked"]);
});

test("the attempt of a worker that learns of its loss is told to stop, and nothing of it counts", async () => {
  const agent = scriptedAgent("loser", {
    script: {
      "1": [{ call: true }, { usage: { inputTokens: 5 } }, { poll: true, every: 5 }],
      "*": [{ say: "second" }],
    },
  });
  await scene.publish(agent);
  const turn = await scene.turnq.submit({ agent: "loser", input: "x", id: "t1", retry: { backoff: { delayMs: 1 } } });
  const first = await scene.worker([agent], { id: "first", leases: QUICK });
  await until(async () => (await scene.ledger("loser").row("t1"))?.state === "running");
  // As if another worker had found the lease ended.
  const facts = await scene.ledger("loser").facts("t1");
  const record = testRecord(
    { attempt: 1, iteration: 1, facts },
    { status: "lost", usage: { modelCalls: 0, toolCalls: 0, known: "unknown" } },
  );
  expect(
    await scene.ledger("loser").close(closing(facts, record, { spends: "crash" }), { state: "delayed", afterMs: 1 }),
  ).toBe("closed");
  await until(async () => (await scene.ledger("loser").facts("t1")).attempts[0]?.late);
  await until(() => first.worker.running === 0);
  await scene.stall("loser", "t1");
  const result = await turn.result({ waitMs: 20_000 });
  expect(result).toMatchObject({ ok: true, output: "second", usage: { inputTokens: 5 } });
  await scene.check("loser");
});

test("invariant 10, D04: a worker that stood still after begin starts no attempt that another worker has closed and settled meanwhile", async () => {
  const runs: number[] = [];
  const agent = defineAgent("stood-still", ({ attempt }) => {
    runs.push(attempt);
    return `attempt ${attempt}`;
  });
  await scene.publish(agent);
  const [begun, settled] = [new Gate(), new Gate()];
  let held = false;
  // The first begin has been executed, and its worker reads the answer only when all is over.
  installProbe(async (point) => {
    if (point !== "after:script:begin" || held) return;
    held = true;
    begun.open();
    await settled.opened;
  });
  try {
    const first = await scene.worker([agent], { leases: QUICK, concurrency: 1 });
    const turn = await scene.turnq.submit({ agent: "stood-still", input: "x", id: "stood-still-1" });
    await begun.opened;
    await scene.worker([agent], { leases: QUICK });
    await scene.stall("stood-still", turn.id);
    expect(await turn.result({ waitMs: 30_000 })).toMatchObject({
      ok: true,
      output: "attempt 2",
      attempts: [{ attempt: 1, status: "lost" }, { attempt: 2 }],
    });
    settled.open();
    await first.close();
    expect(runs).toEqual([2]);
    await scene.told("stood-still", turn.id);
    await scene.check("stood-still");
  } finally {
    settled.open();
    installProbe(undefined);
  }
});
