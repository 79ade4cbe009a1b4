import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { laneTag } from "../../../src/ledger/keys.ts";
import { addUsage, type Usage } from "../../../src/domain/usage.ts";
import { checkLane } from "../../check-lane.ts";
import { closing, settlement, TEN_TOKENS, TestLane, testEvents, testRecord, type Run } from "../../lane.ts";
import { connect } from "../../../src/redis/connection.ts";
import { throwAwayRedis, type ThrowAwayRedis } from "../../redis.ts";
import { dump } from "../../twice.ts";
import { bookLate } from "../../../src/queue/late-usage.ts";
import { SILENT } from "../../../src/telemetry/log.ts";

let server: ThrowAwayRedis;
let lane: TestLane;
let run: Run;
beforeAll(async () => {
  server = await throwAwayRedis({ appendfsync: "no" });
});
afterAll(async () => {
  await server.stop();
});
beforeEach(async () => {
  lane = await TestLane.open(server.url, { twice: true });
  await lane.submit({ id: "t1", batch: { id: "b", sample: "1", epoch: 1 } });
  run = await lane.run("t1");
});
afterEach(async () => {
  expect(await checkLane(lane.redis, lane.name)).toEqual([]);
  await lane.close();
});

const DELAYED = { state: "delayed", afterMs: 5000 } as const;
const delta = (text: string) => ({ type: "text_delta", text }) as const;
const ledgerState = (): Promise<Map<string, unknown>> => dump(lane.redis, `${laneTag(lane.name)}/`);

describe("append", () => {
  test("events go in order into the attempt's stream, under their seq", async () => {
    const events = testEvents("t1", 1, 0, delta("a"), delta("b"), delta("c"));
    expect(await lane.ledger.append("t1", 1, events.slice(0, 2))).toBe(true);
    expect(await lane.ledger.append("t1", 1, events)).toBe(true);
    expect(await lane.ledger.events("t1", 1, 0)).toEqual({ events, to: 3 });
    expect(await lane.ledger.events("t1", 1, 2)).toEqual({ events: events.slice(2), to: 3 });
    expect(await lane.ledger.events("t1", 1, 3)).toEqual({ events: [], to: 3 });
  });

  test("an attempt that is not the current one makes no key", async () => {
    const before = await ledgerState();
    expect(await lane.ledger.append("t1", 2, testEvents("t1", 2, 0, delta("a")))).toBe(false);
    expect(await lane.ledger.append("ghost", 1, testEvents("ghost", 1, 0, delta("a")))).toBe(false);
    expect(await ledgerState()).toEqual(before);
    await lane.ledger.close(closing(run.facts, testRecord(run, { status: "crashed" })), DELAYED);
    const closed = await ledgerState();
    expect(await lane.ledger.append("t1", 1, testEvents("t1", 1, 5, delta("late")))).toBe(false);
    expect(await ledgerState()).toEqual(closed);
  });
});

describe("close", () => {
  test("stores record, summary and counts, and says when the turn goes on", async () => {
    const record = testRecord(run, { status: "crashed" });
    expect(await lane.ledger.close(closing(run.facts, record), DELAYED)).toBe("closed");
    expect(await lane.ledger.attempt("t1", 1)).toMatchObject({ v: 1, record });
    const row = await lane.ledger.row("t1");
    expect(row?.state).toBe("delayed");
    expect(row?.nextAt).toBeGreaterThan(Date.now());
    expect(await lane.ledger.facts("t1")).toMatchObject({
      spent: 1,
      crashes: 0,
      seq: 1,
      attempts: [{ attempt: 1, status: "crashed", worker: "w1" }],
    });
    expect(await lane.ledger.batchCounts("b")).toMatchObject({
      attempts: 1,
      crashedAttempts: 1,
      usage: { inputTokens: 7, outputTokens: 3, costUsd: 0.25 },
    });
  });

  test("what is handed back spends nothing and waits", async () => {
    const close = closing(run.facts, testRecord(run, { status: "interrupted", crashed: false }), { spends: "nothing" });
    expect(await lane.ledger.close(close, { state: "waiting", afterMs: 0 })).toBe("closed");
    expect(await lane.state("t1")).toBe("waiting");
    expect(await lane.ledger.facts("t1")).toMatchObject({ spent: 0, crashes: 0 });
  });

  test("a stale attempt's close is refused, also under a new nonce", async () => {
    const close = closing(run.facts, testRecord(run, { status: "crashed" }));
    await lane.ledger.close(close, DELAYED);
    const before = await ledgerState();
    expect(await lane.ledger.close({ ...close, nonce: "another" }, DELAYED)).toBe("stale");
    await lane.run("t1");
    expect(await lane.ledger.close({ ...close, nonce: "third" }, DELAYED)).toBe("stale");
    expect(await lane.ledger.close({ ...close, attempt: 7 }, DELAYED)).toBe("stale");
    expect((await ledgerState()).get(lane.key("record", "t1", 1))).toEqual(before.get(lane.key("record", "t1", 1)));
  });

  test("a resend that arrives when the next attempt runs is answered as the first, and changes nothing", async () => {
    const close = closing(run.facts, testRecord(run, { status: "crashed" }));
    await lane.ledger.close(close, DELAYED);
    await lane.run("t1");
    const before = await ledgerState();
    expect(await lane.ledger.close(close, DELAYED)).toBe("closed");
    expect(await ledgerState()).toEqual(before);
  });

  test("the stream gets the events that it lacks, and an expiry; without a stream none is made", async () => {
    const events = testEvents("t1", 1, 0, delta("a"), delta("b"), { type: "rolled_back", reason: "crashed" });
    await lane.ledger.append("t1", 1, events.slice(0, 2));
    const record = testRecord(run, { status: "crashed" });
    await lane.ledger.close(
      closing(run.facts, record, { tail: events.slice(1), stored: { v: 1, record, events } }),
      DELAYED,
    );
    expect(await lane.ledger.events("t1", 1, 0)).toEqual({ events, to: 3 });
    expect(await lane.redis.pttl(lane.key("events", "t1", 1))).toBeGreaterThan(500_000);
    const second = await lane.run("t1");
    await lane.ledger.close(closing(second.facts, testRecord(second, { status: "crashed" })), DELAYED);
    expect(await lane.ledger.events("t1", 2, 0)).toBeUndefined();
    expect((await lane.ledger.attempt("t1", 2))?.events).toHaveLength(1);
  });
});

describe("settle", () => {
  test("stores the Result, the outcome and the counts, all at once, and tells those who listen", async () => {
    const heard: string[] = [];
    const subscriber = connect(server.url, "worker");
    await subscriber.subscribe(`${laneTag(lane.name)}/settled`);
    subscriber.on("message", (_channel: string, turn: string) => heard.push(turn));
    const settle = settlement(run.facts, testRecord(run));
    expect(await lane.ledger.settle(settle)).toBe("settled");
    expect(await lane.ledger.result("t1", 1)).toEqual(settle.result);
    expect(await lane.ledger.row("t1")).toMatchObject({
      state: "settled",
      outcome: "ok",
      status: "completed",
      usage: TEN_TOKENS,
    });
    expect(await lane.ledger.batchCounts("b")).toMatchObject({
      attempts: 1,
      outcomes: { ok: 1 },
      states: { settled: 1, running: 0 },
    });
    await subscriber.ping();
    subscriber.disconnect();
    expect(heard).toEqual(["t1"]);
  });

  test("fenced: a stale attempt's settle is refused and changes nothing", async () => {
    const late = settlement(run.facts, testRecord(run, { output: "too late" }));
    await lane.endLease("t1", 1);
    await lane.ledger.renew([]);
    expect((await lane.begin("t1", "w2")).kind).toBe("lost");
    await lane.ledger.close(closing(run.facts, testRecord(run, { status: "lost" }), { spends: "crash" }), DELAYED);
    const second = await lane.run("t1", "w2");
    const before = await ledgerState();
    expect(await lane.ledger.settle(late)).toBe("stale");
    expect(await ledgerState()).toEqual(before);
    expect(await lane.ledger.settle(settlement(second.facts, testRecord(second)))).toBe("settled");
    const settled = await ledgerState();
    expect(await lane.ledger.settle(late)).toBe("stale");
    expect(await ledgerState()).toEqual(settled);
    expect(await lane.ledger.result("t1", 1)).toMatchObject({
      output: "out",
      attempts: [{ status: "lost" }, { status: "completed" }],
    });
  });

  test("the first of two settles of one attempt wins", async () => {
    const first = settlement(run.facts, testRecord(run, { output: "first" }));
    const second = settlement(run.facts, testRecord(run, { output: "second" }));
    expect(await lane.ledger.settle(first)).toBe("settled");
    expect(await lane.ledger.settle(second)).toBe("stale");
    expect(await lane.ledger.settle(first)).toBe("settled");
    expect(await lane.ledger.result("t1", 1)).toMatchObject({ output: "first" });
  });

  test("changed: spend that was booked after the Result was built is not missed", async () => {
    await lane.ledger.close(closing(run.facts, testRecord(run, { status: "crashed" })), DELAYED);
    const second = await lane.run("t1");
    const beyond: Usage = { inputTokens: 5, modelCalls: 1, toolCalls: 0, known: "reported" };
    expect(await lane.bookLate("t1", 1, undefined, beyond)).toBe(true);
    const before = await ledgerState();
    expect(await lane.ledger.settle(settlement(second.facts, testRecord(second)))).toBe("changed");
    expect(await ledgerState()).toEqual(before);
    const anew = settlement(await lane.ledger.facts("t1"), testRecord(second));
    expect(await lane.ledger.settle(anew)).toBe("settled");
    expect(anew.result.usage).toEqual(addUsage(addUsage(TEN_TOKENS, TEN_TOKENS), beyond));
  });
});

describe("late", () => {
  const beyond: Usage = { inputTokens: 5, costUsd: 0.5, modelCalls: 2, toolCalls: 0, known: "reported" };

  test("is not booked while the attempt is open, nor for one that never was", async () => {
    const before = await ledgerState();
    expect(await lane.bookLate("t1", 1, undefined, beyond)).toBe(false);
    expect(await lane.bookLate("t1", 9, undefined, beyond)).toBe(false);
    expect(await ledgerState()).toEqual(before);
  });

  test("before the settle it enters the turn's sum, once", async () => {
    await lane.ledger.close(closing(run.facts, testRecord(run, { status: "lost" })), DELAYED);
    const { rev } = await lane.ledger.facts("t1");
    expect(await lane.bookLate("t1", 1, undefined, beyond)).toBe(true);
    expect(await lane.bookLate("t1", 1, undefined, { ...beyond, inputTokens: 6 }, rev)).toBe(false);
    const next = await lane.run("t1");
    expect(next.facts.attempts[0]).toMatchObject({ usage: TEN_TOKENS, late: beyond });
    const settle = settlement(next.facts, testRecord(next));
    await lane.ledger.settle(settle);
    expect(settle.result.usage).toMatchObject({ inputTokens: 19, costUsd: 1 });
    expect(await lane.ledger.batchCounts("b")).toMatchObject({ usage: { inputTokens: 19, costUsd: 1 } });
  });

  test("what is told after that is added, on what was read of it", async () => {
    await lane.ledger.close(closing(run.facts, testRecord(run, { status: "lost" })), DELAYED);
    for (const _time of [1, 2, 3]) {
      const { attempts, rev } = await lane.ledger.facts("t1");
      expect(await lane.bookLate("t1", 1, attempts[0]?.late, beyond, rev - 1)).toBe(false);
      expect(await lane.bookLate("t1", 1, attempts[0]?.late, beyond, rev)).toBe(true);
    }
    expect((await lane.ledger.facts("t1")).attempts[0]?.late).toMatchObject({
      inputTokens: 15,
      costUsd: 1.5,
      modelCalls: 6,
    });
    expect(await lane.ledger.batchCounts("b")).toMatchObject({ usage: { inputTokens: 22 } });
  });

  test.each(["not JSON", "{}", "null", '{"known":"reported","inputTokens":-1}'])(
    "D16: what is told after late usage that cannot be read, %s, is booked once, and not asked for without end",
    async (unreadable) => {
      await lane.submit({ id: "t2" });
      const second = await lane.run("t2");
      await lane.ledger.close(closing(second.facts, testRecord(second, { status: "lost" })), DELAYED);
      await lane.bookLate("t2", 1, undefined, beyond);
      await lane.redis.hset(lane.key("attempts", "t2"), "1:late", unreadable);
      const booking = { ledger: lane.ledger, worker: { log: SILENT, givenUp: new AbortController().signal } };
      const told = addUsage(TEN_TOKENS, beyond);
      expect(await bookLate(booking, { turn: "t2", attempt: 1 }, told)).toEqual(beyond);
      expect(await bookLate(booking, { turn: "t2", attempt: 1 }, told)).toBeUndefined();
      expect((await lane.ledger.facts("t2")).attempts[0]?.late).toEqual({ ...beyond, known: "partial" });
    },
  );

  test("after the settle it stands beside the Result, never in it; the batch's total has it", async () => {
    await lane.ledger.close(closing(run.facts, testRecord(run, { status: "lost" })), DELAYED);
    await lane.settled("t1");
    const result = await lane.ledger.result("t1", 1);
    expect(await lane.bookLate("t1", 1, undefined, beyond)).toBe(true);
    expect(await lane.ledger.result("t1", 1)).toEqual(result);
    expect(result?.usage.inputTokens).toBe(14);
    expect((await lane.ledger.facts("t1")).attempts[0]?.late).toEqual(beyond);
    expect(await lane.ledger.batchCounts("b")).toMatchObject({ usage: { inputTokens: 19 } });
  });
});
