import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { laneTag } from "../../../src/ledger/keys.ts";
import { checkLane } from "../../check-lane.ts";
import { closing, settlement, TestLane, testRecord } from "../../lane.ts";
import { throwAwayRedis, type ThrowAwayRedis } from "../../redis.ts";
import { dump } from "../../twice.ts";

let server: ThrowAwayRedis;
let lane: TestLane;
beforeAll(async () => {
  server = await throwAwayRedis({ appendfsync: "no" });
});
afterAll(async () => {
  await server.stop();
});
beforeEach(async () => {
  lane = await TestLane.open(server.url, { twice: true });
});
afterEach(async () => {
  expect(await checkLane(lane.redis, lane.name)).toEqual([]);
  await lane.close();
});

/** What the ledger holds: all but BullMQ's keys. */
function ledgerState(): Promise<Map<string, unknown>> {
  return dump(lane.redis, `${laneTag(lane.name)}/`);
}

test("run: a new attempt number, the request and no history", async () => {
  await lane.submit({ id: "t1", input: "do it" });
  const begun = await lane.run("t1");
  expect(begun).toMatchObject({
    attempt: 1,
    iteration: 1,
    history: [],
    facts: { generation: 1, firstAttempt: 1, spent: 0, crashes: 0, seq: 0, attempts: [], request: { input: "do it" } },
  });
  expect(await lane.ledger.opened("t1", 1)).toMatchObject({ worker: "w1", iteration: 1 });
  expect(await lane.ledger.row("t1")).toMatchObject({ state: "running", attempt: 1, worker: "w1" });
});

test("the same delivery again gets the same attempt; the next one a new one only after the close", async () => {
  await lane.submit({ id: "t1" });
  const delivery = await lane.fetch("t1");
  const first = await lane.ledger.begin(delivery, "w1", false);
  const again = await lane.ledger.begin(delivery, "w1", false);
  expect(again).toEqual(first);
  if (first.kind !== "run") throw new Error(first.kind);
  await lane.ledger.close(closing(first.facts, testRecord(first, { status: "crashed" })), {
    state: "delayed",
    afterMs: 10,
  });
  const second = await lane.run("t1");
  expect(second).toMatchObject({
    attempt: 2,
    facts: { spent: 1, seq: 1, attempts: [{ attempt: 1, status: "crashed" }] },
  });
});

describe("stray", () => {
  test("a job of which no turn is stored", async () => {
    expect(
      await lane.ledger.begin({ turn: "ghost", job: "ghost", token: "x", attemptsStarted: 1 }, "w1", false),
    ).toEqual({ kind: "stray" });
    expect((await ledgerState()).size).toBe(0);
  });

  test("a job of an earlier generation", async () => {
    await lane.submit({ id: "t1" });
    await lane.settled("t1");
    await lane.openGeneration("t1", 1, "n");
    const before = await ledgerState();
    const old = { turn: "t1", job: "t1", token: "x", attemptsStarted: 7 };
    await lane.redis.set(lane.bull("t1:lock"), "x");
    await lane.redis.hset(lane.bull("t1"), "ats", 7);
    expect(await lane.ledger.begin(old, "w1", false)).toEqual({ kind: "stray" });
    expect(await ledgerState()).toEqual(before);
  });
});

describe("nolock", () => {
  test("another token holds the job's lock, or none", async () => {
    await lane.submit({ id: "t1" });
    const delivery = await lane.fetch("t1", "mine");
    const before = await ledgerState();
    expect(await lane.ledger.begin({ ...delivery, token: "other" }, "w1", false)).toEqual({ kind: "nolock" });
    await lane.redis.del(lane.bull("t1:lock"));
    expect(await lane.ledger.begin(delivery, "w1", false)).toEqual({ kind: "nolock" });
    expect(await ledgerState()).toEqual(before);
  });

  test("the token was used for a later delivery of the job", async () => {
    await lane.submit({ id: "t1" });
    const first = await lane.fetch("t1", "token");
    await lane.fetch("t1", "token");
    const before = await ledgerState();
    expect(await lane.ledger.begin(first, "w1", false)).toEqual({ kind: "nolock" });
    expect(await ledgerState()).toEqual(before);
  });
});

describe("settled", () => {
  test("a re-delivery of a settled turn gets the generation and changes nothing", async () => {
    await lane.submit({ id: "t1" });
    await lane.settled("t1");
    const before = await ledgerState();
    expect(await lane.begin("t1")).toEqual({ kind: "settled", generation: 1 });
    expect(await ledgerState()).toEqual(before);
  });

  test("only a job whose finish was told for this very generation opens another one", async () => {
    await lane.submit({ id: "t1" });
    await lane.settled("t1");
    await lane.redis.hset(lane.bull("t1"), "told", "1");
    const again = await lane.run("t1");
    expect(again).toMatchObject({ attempt: 2, facts: { generation: 2, firstAttempt: 2, spent: 0 } });
    expect(await lane.ledger.settle(settlement(again.facts, testRecord(again, { output: "second" })))).toBe("settled");
    // `told` is of the first generation: BullMQ was not told of the second one yet.
    expect(await lane.begin("t1")).toEqual({ kind: "settled", generation: 2 });
    expect(await lane.ledger.result("t1", 1)).toMatchObject({ output: "out", generation: 1 });
    expect(await lane.ledger.result("t1", 2)).toMatchObject({ output: "second", generation: 2 });
  });
});

describe("another attempt is open", () => {
  beforeEach(async () => {
    await lane.submit({ id: "t1", batch: { id: "b", sample: "1", epoch: 1 } });
    await lane.ledger.renew([]);
    await lane.run("t1", "w1");
  });

  test("wait while its lease holds", async () => {
    const begun = await lane.begin("t1", "w2");
    expect(begun.kind).toBe("wait");
    if (begun.kind === "wait") {
      expect(begun.ms).toBeGreaterThan(0);
      expect(begun.ms).toBeLessThanOrEqual(8050);
    }
  });

  test("wait while nobody has renewed in the lane for too long: Redis or all workers were away", async () => {
    await lane.endLease("t1", 1);
    await lane.redis.hset(lane.key("lane"), "renewedAt", Date.now() - 60_000);
    expect(await lane.begin("t1", "w2")).toEqual({ kind: "wait", ms: 1000 });
  });

  test("wait while a grace runs, which the first renewal after the gap opened", async () => {
    await lane.endLease("t1", 1);
    await lane.redis.hset(lane.key("lane"), "renewedAt", Date.now() - 60_000);
    await lane.ledger.renew([]);
    expect(await lane.begin("t1", "w2")).toEqual({ kind: "wait", ms: 1000 });
    await lane.redis.hset(lane.key("lane"), "graceUntil", Date.now() - 1);
    expect(await lane.begin("t1", "w2")).toMatchObject({ kind: "lost" });
  });

  test("lost after the lease has ended; the attempt's close is accepted once, then the turn goes on", async () => {
    await lane.endLease("t1", 1);
    expect(await lane.begin("t1", "w2")).toEqual({ kind: "lost", attempt: 1, announces: false });
    const facts = await lane.ledger.facts("t1");
    const record = testRecord({ attempt: 1, iteration: 1, facts }, { status: "lost", crashed: true });
    const first = closing(facts, record, { spends: "crash" });
    const rival = closing(facts, record, { spends: "crash" });
    expect(await lane.ledger.close(first, { state: "delayed", afterMs: 5 })).toBe("closed");
    expect(await lane.ledger.close(rival, { state: "delayed", afterMs: 5 })).toBe("stale");
    expect(await lane.run("t1", "w2")).toMatchObject({ attempt: 2, facts: { crashes: 1, spent: 0 } });
  });

  test("a renewal by its worker keeps the attempt alive", async () => {
    await lane.endLease("t1", 1);
    expect(await lane.ledger.renew([{ turn: "t1", attempt: 1 }])).toEqual({ lost: [], cancelled: [] });
    expect((await lane.begin("t1", "w2")).kind).toBe("wait");
  });

  test("lost says whether the agent announces its calls", async () => {
    await lane.submit({ id: "t2" });
    await lane.begin("t2", "w1", true);
    await lane.endLease("t2", 1);
    expect(await lane.begin("t2", "w2")).toEqual({ kind: "lost", attempt: 1, announces: true });
  });
});

describe("sessions", () => {
  beforeEach(async () => {
    await lane.submit({ id: "t1", session: "s" }, { id: "t2", session: "s" }, { id: "t3", session: "s" });
  });

  test("park: a turn behind the head", async () => {
    const before = await ledgerState();
    expect(await lane.begin("t2")).toEqual({ kind: "park", session: "s" });
    expect(await ledgerState()).toEqual(before);
  });

  test("settle moves the next head's job to wait, and its begin gets the snapshot", async () => {
    await lane.redis.del(lane.bull("wait"));
    await lane.settled("t1");
    expect(await lane.state("t2")).toBe("waiting");
    expect(await lane.redis.lrange(lane.bull("wait"), 0, -1)).toEqual(["t2"]);
    const begun = await lane.run("t2");
    expect(begun.iteration).toBe(2);
    expect(begun.history).toEqual([
      { role: "user", content: "hello" },
      { role: "assistant", content: "answer 1" },
    ]);
    expect((await lane.begin("t3")).kind).toBe("park");
  });

  test("a failed turn leaves messages and iteration, and the next one runs", async () => {
    const begun = await lane.run("t1");
    expect(await lane.ledger.settle(settlement(begun.facts, testRecord(begun, { status: "crashed" })))).toBe("settled");
    expect(await lane.run("t2")).toMatchObject({ iteration: 1, history: [] });
  });

  test("a manual retry of a session's turn goes to the session's end", async () => {
    await lane.settled("t1");
    await lane.redis.hset(lane.bull("t1"), "told", "1");
    expect(await lane.begin("t1")).toEqual({ kind: "park", session: "s" });
    expect(await lane.ledger.row("t1")).toMatchObject({ state: "parked", generation: 2 });
    await lane.settled("t2");
    await lane.settled("t3");
    expect(await lane.run("t1")).toMatchObject({ iteration: 4, facts: { generation: 2, firstAttempt: 2 } });
  });
});
