import { randomUUID } from "node:crypto";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { FailureCode } from "../../../src/domain/failure.ts";
import type { Usage } from "../../../src/domain/usage.ts";
import type { LaneLimits } from "../../../src/ledger/ledger.ts";
import { checkLane } from "../../check-lane.ts";
import { closing, settlement, TestLane, testRecord, type Run } from "../../lane.ts";
import { throwAwayRedis, type ThrowAwayRedis } from "../../redis.ts";

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

interface Hit {
  readonly afterMs?: number;
  readonly random?: number;
  readonly reason?: FailureCode;
}

/** When the last hit was sent. */
let hitAt = 0;

async function hit(run: Run, { reason = "rate_limited", random = 0, ...more }: Hit = {}): Promise<void> {
  const { attempt, facts } = run;
  hitAt = Date.now();
  await lane.ledger.closeGate({ turn: facts.request.id, attempt, nonce: randomUUID(), reason, random, ...more });
}

/** A hit and the close that hands the turn back, as a worker does for a provider's refusal. */
async function hitBack(run: Run, more: Hit = {}): Promise<void> {
  await hit(run, more);
  const close = closing(run.facts, testRecord(run, { status: "crashed" }), { spends: "nothing" });
  expect(await lane.ledger.close(close, { state: "waiting", afterMs: 0 })).toBe("closed");
}

/** How long the gate is closed for from an instant on, the last hit's unless given, in whole seconds. */
async function closedFor(since = hitAt): Promise<number | undefined> {
  const gate = await lane.ledger.gate();
  return gate === undefined ? undefined : Math.round((gate.until - since) / 1000);
}

/** Has the time pass that the gate is closed for. */
async function pass(): Promise<void> {
  const now = Date.now();
  await lane.redis.hset(lane.key("lane"), "gateUntil", now - 1);
  if ((await lane.redis.hexists(lane.key("lane"), "hitUntil")) === 1)
    await lane.redis.hset(lane.key("lane"), "hitUntil", now - 1);
  await lane.redis.del(lane.bull("limiter"));
}

async function runs(...ids: readonly string[]): Promise<Run[]> {
  await lane.submit(...ids.map((id) => ({ id })));
  const found: Run[] = [];
  for (const id of ids) found.push(await lane.run(id));
  return found;
}

describe("a provider's refusal", () => {
  test("C44: the gate is closed until the instant that the provider named, and BullMQ's limiter with it", async () => {
    const [one] = await runs("t1");
    await hitBack(one as Run, { afterMs: 38_000 });
    expect(await lane.ledger.gate()).toMatchObject({ reason: "rate_limited", waiting: 1 });
    expect(await closedFor()).toBe(38);
    expect(await lane.redis.get(lane.bull("limiter"))).toBe(String(Number.MAX_SAFE_INTEGER));
    expect(await lane.redis.pttl(lane.bull("limiter"))).toBeGreaterThan(37_000);
    // A job that was fetched already: nothing is spent, the attempt has no number.
    expect(await lane.begin("t1")).toMatchObject({ kind: "gate" });
    expect(await lane.ledger.row("t1")).toMatchObject({ state: "waiting", attempt: 1 });
    await pass();
    expect(await lane.ledger.gate()).toBeUndefined();
    expect(await lane.begin("t1")).toMatchObject({ kind: "run", attempt: 2, facts: { spent: 0, crashes: 0 } });
  });

  test("the later instant wins, whichever is told last", async () => {
    const [one, two] = await runs("t1", "t2");
    await hit(one as Run, { afterMs: 60_000, reason: "quota_exhausted" });
    const firstAt = hitAt;
    await hit(two as Run, { afterMs: 2000 });
    expect(await lane.ledger.gate()).toMatchObject({ reason: "quota_exhausted" });
    expect(await closedFor(firstAt)).toBe(60);
    expect(await lane.redis.pttl(lane.bull("limiter"))).toBeGreaterThan(59_000);
    await hit(two as Run, { afterMs: 90_000, reason: "overloaded" });
    expect(await lane.ledger.gate()).toMatchObject({ reason: "overloaded" });
    expect(await closedFor()).toBe(90);
  });

  test("C44: a far instant is waited for a day at most; one that is near or past is not asked about in a loop", async () => {
    const [one] = await runs("t1");
    await hit(one as Run, { afterMs: 999_999_000 });
    expect(await closedFor()).toBe(24 * 3600);
    await lane.redis.del(lane.key("lane"), lane.bull("limiter"));
    for (const seconds of [1, 2, 4]) {
      await pass();
      const now = await lane.run("t1").catch(() => undefined);
      expect(now).toBeUndefined();
      await lane.redis.hset(lane.key("lane"), "hitUntil", 1);
      await hit(one as Run, { afterMs: 0 });
      expect(await closedFor()).toBe(seconds);
    }
  });

  test("C26, D23: a turn that a provider puts off for a second again and again asks less often after its 20th attempt", async () => {
    await lane.submit({ id: "t1" }, { id: "t2" });
    const waits = [];
    for (let attempt = 1; attempt <= 82; attempt++) {
      await pass();
      await hitBack(await lane.run("t1"), { afterMs: 2000 });
      waits.push(await closedFor());
    }
    expect(waits).toEqual(waits.map((_, i) => Math.min(60, Math.max(2, i + 1 - 20))));
    // A longer one is believed.
    await pass();
    await hitBack(await lane.run("t1"), { afterMs: 300_000 });
    expect(await closedFor()).toBe(300);
    // Another turn is believed, whatever this one met.
    await pass();
    await hitBack(await lane.run("t2"), { afterMs: 2000 });
    expect(await closedFor()).toBe(2);
  });

  test("without an instant the wait doubles from 5 to 60 s while nothing succeeds, is spread, and begins anew after a success", async () => {
    await lane.submit({ id: "t1" }, { id: "t2" });
    for (const seconds of [5, 10, 20, 40, 60, 60]) {
      await pass();
      await hitBack(await lane.run("t1"));
      expect(await closedFor()).toBe(seconds);
    }
    await pass();
    const well = await lane.run("t2");
    await lane.ledger.settle(settlement(well.facts, testRecord(well)));
    await pass();
    await hitBack(await lane.run("t1"), { random: 1 });
    expect(await closedFor()).toBe(4);
  });

  test("C45: many turns hit at once are one wait: it is not doubled by each, nor by those that end late", async () => {
    const all = await runs(...Array.from({ length: 20 }, (_, i) => `t${i}`));
    await hitBack(all[0] as Run, { reason: "overloaded" });
    expect(await closedFor()).toBe(5);
    const closed = await lane.ledger.gate();
    for (const run of all.slice(1, 18)) await hitBack(run, { reason: "overloaded" });
    expect((await lane.ledger.gate())?.until).toBe(closed?.until);
    await pass();
    // It began before the gate was closed: that it is refused now says nothing of how long is long enough.
    await hitBack(all[18] as Run);
    expect(await closedFor()).toBe(5);
    // Nor does a success that began before.
    await lane.ledger.settle(settlement((all[19] as Run).facts, testRecord(all[19] as Run)));
    await pass();
    await hitBack(await lane.run("t0"));
    expect(await closedFor()).toBe(10);
  });

  test("C45: after two waits without a success one turn a second is let through, until one succeeds", async () => {
    await lane.submit(...["t1", "t2", "t3", "t4"].map((id) => ({ id })));
    for (let i = 0; i < 2; i++) {
      await hitBack(await lane.run("t1"));
      await pass();
    }
    const probe = await lane.run("t1");
    expect(await lane.begin("t2")).toMatchObject({ kind: "gate" });
    await lane.ledger.settle(settlement(probe.facts, testRecord(probe)));
    await pass();
    for (const id of ["t2", "t3", "t4"]) await lane.run(id);
  });

  test("a limiter that somebody has removed is set again, so that closed jobs are not fetched in a loop", async () => {
    const [one] = await runs("t1");
    await hitBack(one as Run, { afterMs: 30_000 });
    await lane.redis.del(lane.bull("limiter"));
    expect(await lane.begin("t1")).toMatchObject({ kind: "gate" });
    expect(await lane.redis.pttl(lane.bull("limiter"))).toBeGreaterThan(28_000);
  });

  test("the same delivery of a turn that runs is not held by a gate that was closed since", async () => {
    await lane.submit({ id: "t1" }, { id: "t2" });
    const delivery = await lane.fetch("t1");
    const first = await lane.ledger.begin(delivery, "w1", false);
    await hit(await lane.run("t2"), { afterMs: 30_000 });
    expect(await lane.ledger.begin(delivery, "w1", false)).toEqual(first);
  });
});

describe("limits per minute", () => {
  const used = (more: Partial<Usage>): Usage => ({ modelCalls: 1, toolCalls: 0, known: "reported", ...more });

  async function limited(limits: LaneLimits, turns = 9): Promise<void> {
    await lane.ledger.limit(limits);
    await lane.submit(...Array.from({ length: turns }, (_, i) => ({ id: `t${i}` })));
  }

  /** Moves the lane's clock: what was refilled last is so much longer ago. */
  async function later(ms: number): Promise<void> {
    await pass();
    const at = Number(await lane.redis.hget(lane.key("lane"), "refilledAt"));
    await lane.redis.hset(lane.key("lane"), "refilledAt", at - ms);
  }

  test("each start takes a request; the last one closes the gate until the next is due", async () => {
    await limited({ requestsPerMinute: 6 });
    const startedAt = Date.now();
    await lane.run("t0");
    expect(await lane.ledger.gate()).toMatchObject({ reason: "requestsPerMinute", waiting: 8 });
    expect(await closedFor(startedAt)).toBe(10);
    expect(await lane.begin("t1")).toMatchObject({ kind: "gate" });
    await later(4000);
    expect(await lane.begin("t1")).toMatchObject({ kind: "gate" });
    await later(7000);
    await lane.run("t1");
    expect(await lane.begin("t2")).toMatchObject({ kind: "gate" });
  });

  test("in no minute are there more starts than the limit, also after a long rest", async () => {
    // Not executed twice: a gate that is closed for a millisecond is open a millisecond later.
    await lane.close();
    lane = await TestLane.open(server.url);
    await limited({ requestsPerMinute: 120 }, 150);
    await later(3_600_000);
    let started = 0;
    const startedAt = Date.now();
    // A minute in steps of 250 ms, at each of which as many start as may.
    for (let step = 0; step < 240; step++) {
      while ((await lane.begin(`t${started}`)).kind === "run") started += 1;
      await later(250);
    }
    // The test itself takes its time, too.
    expect(started).toBeLessThanOrEqual(120 + Math.ceil((Date.now() - startedAt) * (120 / 60_000)));
    expect(started).toBeGreaterThan(110);
  }, 30_000);

  test("further calls and tokens of an attempt are booked when it ends, may leave debt, and no more than a minute pays", async () => {
    await limited({ requestsPerMinute: 60, tokensPerMinute: 6000 });
    const first = await lane.run("t0");
    await pass();
    const endedAt = Date.now();
    await lane.ledger.settle(settlement(first.facts, testRecord(first, { usage: used({ modelCalls: 31 }) })));
    expect(await lane.ledger.gate()).toMatchObject({ reason: "requestsPerMinute" });
    expect(await closedFor(endedAt)).toBeGreaterThanOrEqual(29);
    await later(60_000);
    const second = await lane.run("t1");
    await pass();
    const usage = used({ inputTokens: 400, outputTokens: 100, cacheReadTokens: 2_000_000, cacheWriteTokens: 500 });
    const secondAt = Date.now();
    await lane.ledger.close(closing(second.facts, testRecord(second, { status: "crashed", usage })), {
      state: "delayed",
      afterMs: 1,
    });
    expect(await lane.ledger.gate()).toMatchObject({ reason: "tokensPerMinute" });
    expect(await closedFor(secondAt)).toBeGreaterThanOrEqual(60);
    expect(await closedFor(secondAt)).toBeLessThanOrEqual(62);
    await later(63_000);
    await lane.run("t2");
  });

  test("limits that are taken away hold nobody any more", async () => {
    await limited({ requestsPerMinute: 1, tokensPerMinute: 1 });
    await lane.run("t0");
    await lane.ledger.limit({});
    await pass();
    for (const id of ["t1", "t2", "t3"]) await lane.run(id);
    expect(await lane.redis.exists(lane.bull("limiter"))).toBe(0);
  });
});
