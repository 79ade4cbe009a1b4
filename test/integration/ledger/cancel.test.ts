import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { cancelChannel, laneTag } from "../../../src/ledger/keys.ts";
import { checkLane } from "../../check-lane.ts";
import { closing, settlement, TEN_TOKENS, TestLane, testRecord, unrun } from "../../lane.ts";
import { connect } from "../../../src/redis/connection.ts";
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

const cell = { id: "b", sample: "1", epoch: 1 };
const DELAYED = { state: "delayed", afterMs: 60_000 } as const;

function ledgerState(): Promise<Map<string, unknown>> {
  return dump(lane.redis, `${laneTag(lane.name)}/`);
}

async function cancel(turn: string, more: Parameters<typeof unrun>[1] = {}) {
  return lane.ledger.cancel(unrun(await lane.ledger.facts(turn), more));
}

describe("nobody runs it", () => {
  test("a waiting turn is settled at once, with its reason and who wanted it; its job stays for a worker to end", async () => {
    await lane.submit({ id: "t1", batch: cell });
    expect(await cancel("t1", { reason: "user left", by: "ann" })).toEqual({ kind: "ended" });
    expect(await lane.ledger.row("t1")).toMatchObject({
      state: "settled",
      outcome: "cancelled",
      status: "cancelled",
      attempt: 0,
      cancel: { reason: "user left", by: "ann", phase: "requested" },
    });
    expect(await lane.ledger.result("t1", 1)).toMatchObject({
      ok: false,
      status: "cancelled",
      cancelled: true,
      error: "user left",
      failure: { code: "cancelled", message: "user left" },
      attempts: [],
      usage: { known: "reported", modelCalls: 0 },
    });
    expect(await lane.ledger.batchCounts("b")).toMatchObject({ outcomes: { cancelled: 1 }, attempts: 0 });
    expect(await lane.begin("t1")).toEqual({ kind: "settled", generation: 1 });
  });

  test("a turn that backs off is settled with what its attempts spent", async () => {
    await lane.submit({ id: "t1", batch: cell });
    const run = await lane.run("t1");
    await lane.ledger.close(closing(run.facts, testRecord(run, { status: "crashed" })), DELAYED);
    expect(await cancel("t1")).toEqual({ kind: "ended" });
    expect(await lane.ledger.result("t1", 1)).toMatchObject({
      status: "cancelled",
      usage: TEN_TOKENS,
      wastedUsage: TEN_TOKENS,
      attempts: [{ attempt: 1, status: "crashed" }],
    });
  });

  test("invariant 3: an attempt that was booked after the Result was built is not missed", async () => {
    await lane.submit({ id: "t1" });
    const before = unrun(await lane.ledger.facts("t1"));
    const run = await lane.run("t1");
    await lane.ledger.close(closing(run.facts, testRecord(run, { status: "crashed" })), DELAYED);
    expect(await lane.ledger.cancel(before)).toEqual({ kind: "changed" });
    expect(await lane.state("t1")).toBe("delayed");
    expect(await cancel("t1")).toEqual({ kind: "ended" });
  });

  test("D08, C35: a settled turn is untouched, by a second cancel too; a resend is told from it", async () => {
    await lane.submit({ id: "t1" }, { id: "t2" });
    await lane.settled("t1");
    const before = await ledgerState();
    expect(await cancel("t1")).toEqual({ kind: "settled" });
    expect(await ledgerState()).toEqual(before);
    const first = unrun(await lane.ledger.facts("t2"));
    expect(await lane.ledger.cancel(first)).toEqual({ kind: "ended" });
    const ended = await ledgerState();
    expect(await cancel("t2", { reason: "another" })).toEqual({ kind: "settled" });
    expect(await lane.ledger.cancel(first)).toEqual({ kind: "ended" });
    expect(await ledgerState()).toEqual(ended);
  });

  test("a new generation of a cancelled turn knows nothing of the cancel, nor does its resend touch it", async () => {
    await lane.submit({ id: "t1" });
    const first = unrun(await lane.ledger.facts("t1"));
    await lane.ledger.cancel(first);
    await lane.openGeneration("t1", 1, "n");
    const before = await ledgerState();
    expect(await lane.ledger.cancel(first)).toEqual({ kind: "ended" });
    expect(await ledgerState()).toEqual(before);
    expect((await lane.ledger.row("t1"))?.cancel).toBeUndefined();
    expect(await lane.run("t1")).toMatchObject({ attempt: 1, facts: { generation: 2 } });
  });

  test("invariant 7: in a session the next turn is woken; one behind the head goes without touching the others", async () => {
    await lane.submit({ id: "t1", session: "s" }, { id: "t2", session: "s" }, { id: "t3", session: "s" });
    expect(await cancel("t2")).toEqual({ kind: "ended" });
    expect(await lane.state("t3")).toBe("parked");
    await cancel("t1");
    expect(await lane.state("t3")).toBe("waiting");
    expect(await lane.run("t3")).toMatchObject({ iteration: 1, history: [] });
    // The jobs of the cancelled ones do not stand there for an hour.
    expect(await lane.redis.zcard(lane.bull("delayed"))).toBe(0);
  });

  test("there is no such turn", async () => {
    await lane.submit({ id: "t1" });
    const unknown = { ...unrun(await lane.ledger.facts("t1")), turn: "ghost" };
    expect(await lane.ledger.cancel(unknown)).toEqual({ kind: "missing" });
  });
});

describe("an attempt is open", () => {
  beforeEach(async () => {
    await lane.submit({ id: "t1", batch: cell });
    await lane.ledger.renew([]);
  });

  test("it is flagged, told by message and by the next renewal; the first reason stands", async () => {
    await lane.run("t1");
    const heard: string[] = [];
    const subscriber = connect(server.url, "worker");
    await subscriber.subscribe(cancelChannel(lane.name));
    subscriber.on("message", (_channel: string, turn: string) => heard.push(turn));
    expect(await cancel("t1", { reason: "first" })).toEqual({ kind: "requested" });
    expect(await cancel("t1", { reason: "second" })).toEqual({ kind: "requested" });
    await subscriber.ping();
    subscriber.disconnect();
    expect(heard).toEqual(["t1"]);
    expect(await lane.ledger.row("t1")).toMatchObject({
      state: "stopping",
      cancel: { reason: "first", phase: "requested" },
    });
    const held = { turn: "t1", attempt: 1 };
    expect(await lane.ledger.renew([held])).toEqual({ lost: [], cancelled: [held] });
    await lane.ledger.notePhase("t1", 1, "stopping");
    expect((await lane.ledger.row("t1"))?.cancel?.phase).toBe("stopping");
    await lane.ledger.notePhase("t1", 1, "killed");
    expect((await lane.ledger.row("t1"))?.cancel?.phase).toBe("killed");
  });

  test("A47: a flag that is set before the settle makes it cancelled, the output kept; after it, nothing", async () => {
    const run = await lane.run("t1");
    await cancel("t1", { reason: "too slow" });
    expect(await lane.ledger.settle(settlement(run.facts, testRecord(run)))).toBe("changed");
    const facts = await lane.ledger.facts("t1");
    expect(await lane.ledger.settle(settlement(facts, testRecord(run)))).toBe("settled");
    expect(await lane.ledger.result("t1", 1)).toMatchObject({
      ok: false,
      status: "cancelled",
      error: "too slow",
      output: "out",
      attempts: [{ status: "completed" }],
    });
    expect(await cancel("t1")).toEqual({ kind: "settled" });
  });

  test("nothing follows: a close that would have it go on is answered with the cancel and changes nothing", async () => {
    const run = await lane.run("t1");
    await cancel("t1");
    const before = await ledgerState();
    const close = closing(run.facts, testRecord(run, { status: "crashed" }));
    expect(await lane.ledger.close(close, DELAYED)).toBe("cancelled");
    expect(await lane.ledger.close(close, { state: "waiting", afterMs: 0 })).toBe("cancelled");
    expect(await ledgerState()).toEqual(before);
    const facts = await lane.ledger.facts("t1");
    await lane.ledger.settle({ ...settlement(facts, testRecord(run, { status: "crashed" })), nonce: close.nonce });
    expect(await lane.ledger.row("t1")).toMatchObject({ outcome: "cancelled" });
  });

  test("a close that is sent again after a cancel is still the close that it was", async () => {
    const run = await lane.run("t1");
    const close = closing(run.facts, testRecord(run, { status: "crashed" }));
    await lane.ledger.close(close, DELAYED);
    await lane.run("t1");
    await cancel("t1");
    expect(await lane.ledger.close(close, DELAYED)).toBe("closed");
    const second = await lane.ledger.facts("t1");
    await lane.ledger.settle(settlement(second, testRecord({ attempt: 2, iteration: 1, facts: second })));
  });

  test("lost when its lease has ended, by the same rule as begin, and flagged", async () => {
    await lane.run("t1");
    await lane.endLease("t1", 1);
    await lane.redis.hset(lane.key("lane"), "renewedAt", Date.now() - 60_000);
    expect(await cancel("t1")).toEqual({ kind: "requested" });
    await lane.redis.hset(lane.key("lane"), "renewedAt", Date.now());
    expect(await cancel("t1")).toEqual({ kind: "lost", attempt: 1, announces: false });
    expect((await lane.ledger.facts("t1")).cancel?.reason).toBe("nobody wants it");
    const facts = await lane.ledger.facts("t1");
    const record = testRecord({ attempt: 1, iteration: 1, facts }, { status: "lost" });
    expect(await lane.ledger.settle(settlement(facts, record, { spends: "crash" }))).toBe("settled");
    expect(await lane.ledger.row("t1")).toMatchObject({ outcome: "cancelled" });
  });

  test("a phase is of the open attempt only; a shutdown's is no cancel, and may be cancelled", async () => {
    const run = await lane.run("t1");
    await lane.ledger.notePhase("t1", 1, "stopping");
    expect(await lane.ledger.row("t1")).toMatchObject({ state: "stopping", cancel: undefined });
    expect((await lane.ledger.renew([{ turn: "t1", attempt: 1 }])).cancelled).toEqual([]);
    expect(await cancel("t1")).toEqual({ kind: "requested" });
    await lane.ledger.notePhase("t1", 2, "killed");
    expect((await lane.ledger.row("t1"))?.cancel?.phase).toBe("requested");
    const facts = await lane.ledger.facts("t1");
    await lane.ledger.settle(settlement(facts, testRecord(run)));
  });
});

describe("expiry", () => {
  const past = async (turn: string): Promise<void> => {
    await lane.redis.hset(lane.key("row", turn), "expiresAt", 1);
    await lane.redis.zadd(lane.key("expiry"), "XX", 1, turn);
  };

  test("from submit + delayMs; begin does not start what is over, and it is settled without a run", async () => {
    const now = Date.now();
    await lane.submit({ id: "t1", batch: cell, expiresInMs: 5000 }, { id: "t2", delayMs: 60_000, expiresInMs: 5000 });
    const [first, second] = await lane.ledger.rows(["t1", "t2"]);
    expect((first?.expiresAt ?? 0) - now).toBeGreaterThan(4900);
    expect((first?.expiresAt ?? 0) - now).toBeLessThan(35_000);
    expect((second?.expiresAt ?? 0) - (first?.expiresAt ?? 0)).toBe(60_000);
    expect(await cancel("t1", { how: "expired" })).toEqual({ kind: "undue" });
    expect(await lane.ledger.expired(10)).toEqual([]);
    await past("t1");
    expect(await lane.ledger.expired(10)).toEqual(["t1"]);
    expect(await lane.begin("t1")).toEqual({ kind: "expired" });
    expect(await cancel("t1", { how: "expired", reason: "too late" })).toEqual({ kind: "ended" });
    expect(await lane.ledger.row("t1")).toMatchObject({ state: "settled", outcome: "expired", attempt: 0 });
    expect(await lane.ledger.result("t1", 1)).toMatchObject({
      status: "expired",
      ok: false,
      error: "too late",
      cancelled: false,
      failure: { code: "expired" },
    });
    expect((await lane.ledger.row("t1"))?.cancel).toBeUndefined();
    expect(await lane.begin("t1")).toEqual({ kind: "settled", generation: 1 });
    expect(await lane.ledger.expired(10)).toEqual([]);
  });

  test("is for the first start only", async () => {
    await lane.submit({ id: "t1", expiresInMs: 5000 });
    const run = await lane.run("t1");
    expect(await cancel("t1", { how: "expired" })).toEqual({ kind: "undue" });
    await lane.ledger.close(closing(run.facts, testRecord(run, { status: "crashed" })), DELAYED);
    expect((await lane.ledger.row("t1"))?.expiresAt).toBeUndefined();
    expect(await lane.run("t1")).toMatchObject({ attempt: 2 });
  });

  test("time parked does not count: it begins when the turn becomes its session's head", async () => {
    await lane.submit({ id: "t1", session: "s" }, { id: "t2", session: "s", expiresInMs: 60_000 });
    expect((await lane.ledger.row("t2"))?.expiresAt).toBeUndefined();
    const now = Date.now();
    await lane.settled("t1");
    const row = await lane.ledger.row("t2");
    expect(row?.state).toBe("waiting");
    expect((row?.expiresAt ?? 0) - now).toBeGreaterThan(59_900);
  });

  test("a retry of an expired turn has its time anew", async () => {
    await lane.submit({ id: "t1", expiresInMs: 60_000 });
    await past("t1");
    await cancel("t1", { how: "expired" });
    await lane.openGeneration("t1", 1, "n");
    expect((await lane.ledger.row("t1"))?.expiresAt).toBeGreaterThan(Date.now());
    expect(await lane.run("t1")).toMatchObject({ facts: { generation: 2 } });
  });

  test("the next turn of its session is woken", async () => {
    await lane.submit({ id: "t1", session: "s", expiresInMs: 1000 }, { id: "t2", session: "s" });
    await past("t1");
    await cancel("t1", { how: "expired" });
    expect(await lane.run("t2")).toMatchObject({ iteration: 1 });
  });
});

describe("delay and priority", () => {
  test("a delayed turn is delayed, on the row and as a job; begin holds it back to the instant, by Redis's clock", async () => {
    await lane.submit({ id: "t1", batch: cell, delayMs: 60_000 });
    const row = await lane.ledger.row("t1");
    expect(row?.state).toBe("delayed");
    expect((row?.nextAt ?? 0) - (row?.submittedAt ?? 0)).toBe(60_000);
    expect(await lane.redis.zcard(lane.bull("delayed"))).toBe(1);
    const early = await lane.begin("t1");
    expect(early.kind === "wait" && early.ms > 1000 && early.ms <= 60_000).toBe(true);
    await lane.redis.hset(lane.key("row", "t1"), "dueAt", 1);
    expect(await lane.run("t1")).toMatchObject({ attempt: 1 });
  });

  test("A34: a delay of 0 is none", async () => {
    await lane.submit({ id: "t1", delayMs: 0, priority: 0 });
    expect(await lane.state("t1")).toBe("waiting");
    expect(await lane.redis.lrange(lane.bull("wait"), 0, -1)).toEqual(["t1"]);
  });

  test("a session's head with a delay has its job due then, and holds the ones behind it", async () => {
    await lane.submit({ id: "t1", session: "s", delayMs: 60_000 }, { id: "t2", session: "s" });
    const [first, second] = await lane.ledger.rows(["t1", "t2"]);
    expect([first?.state, second?.state]).toEqual(["delayed", "parked"]);
    const due = Number(await lane.redis.zscore(lane.bull("delayed"), "t1")) / 0x1000;
    expect(due).toBe(first?.nextAt);
    // BullMQ's workers sleep until the marker says that a delayed job is due.
    expect(Number(await lane.redis.zscore(lane.bull("marker"), "1"))).toBe(due);
    expect((await lane.begin("t2")).kind).toBe("park");
    await lane.ledger.wake(["s"]);
    expect(await lane.state("t1")).toBe("delayed");
  });

  test("one behind the head whose delay is over by then is woken at once, one whose delay runs when it is due", async () => {
    await lane.submit(
      { id: "t1", session: "s" },
      { id: "t2", session: "s", delayMs: 60_000 },
      { id: "t3", session: "s", delayMs: 1 },
    );
    await lane.settled("t1");
    const row = await lane.ledger.row("t2");
    expect(row?.state).toBe("delayed");
    expect(Number(await lane.redis.zscore(lane.bull("delayed"), "t2")) / 0x1000).toBe(row?.nextAt);
    await cancel("t2");
    await lane.ledger.wake(["s"]);
    expect(["waiting", "delayed"]).toContain(await lane.state("t3"));
  });

  test("A35: a woken head stands among the prioritized behind its equals, as BullMQ itself would put it", async () => {
    await lane.submit({ id: "a", priority: 2 }, { id: "s1", session: "s", priority: 2 }, { id: "b", priority: 2 });
    await lane.submit({ id: "c", priority: 1 }, { id: "d" });
    expect(await lane.redis.zrange(lane.bull("prioritized"), "0", "-1")).toEqual(["c", "a", "b", "s1"]);
    expect(await lane.redis.lrange(lane.bull("wait"), 0, -1)).toEqual(["d"]);
    expect((await lane.ledger.row("s1"))?.priority).toBe(2);
    expect((await lane.ledger.row("d"))?.priority).toBeUndefined();
  });

  test("are no content: a duplicate with others is the stored turn, as first submitted", async () => {
    await lane.submit({ id: "t1" });
    expect(await lane.submit({ id: "t1", priority: 3, delayMs: 1000, expiresInMs: 5 })).toEqual(["duplicate"]);
    expect(await lane.state("t1")).toBe("waiting");
    expect((await lane.ledger.row("t1"))?.expiresAt).toBeUndefined();
  });
});
