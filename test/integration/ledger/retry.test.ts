import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { LaneSet } from "../../../src/queue/lane-set.ts";
import { retryTurn } from "../../../src/queue/retry.ts";
import { SILENT } from "../../../src/telemetry/log.ts";
import { checkLane } from "../../check-lane.ts";
import { settlement, TestLane, testRecord } from "../../lane.ts";
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

async function failed(turn: string): Promise<void> {
  const begun = await lane.run(turn);
  expect(await lane.ledger.settle(settlement(begun.facts, testRecord(begun, { status: "crashed" })))).toBe("settled");
}

test("a retry opens one generation: budgets start anew, attempt numbers go on, counts move back", async () => {
  await lane.submit({
    id: "t1",
    batch: { id: "b", sample: "1", epoch: 1 },
    expect: [{ type: "equals", value: "out" }],
  });
  await failed("t1");
  expect(await lane.ledger.batchCounts("b")).toMatchObject({ outcomes: { failed: 1 }, scored: 1 });
  expect(await lane.openGeneration("t1", 1, "n1")).toEqual({ kind: "opened", generation: 2 });
  expect(await lane.ledger.batchCounts("b")).toMatchObject({
    turns: 1,
    outcomes: { failed: 0 },
    scored: 0,
    passed: 0,
    attempts: 1,
    states: { waiting: 1, settled: 0 },
  });
  const row = await lane.ledger.row("t1");
  expect(row).toMatchObject({ state: "waiting", generation: 2, job: "t1~2", attempt: 1 });
  expect(row?.outcome).toBeUndefined();
  const begun = await lane.run("t1");
  expect(begun).toMatchObject({ attempt: 2, facts: { generation: 2, firstAttempt: 2, spent: 0, crashes: 0 } });
  const settle = settlement(begun.facts, testRecord(begun));
  expect(await lane.ledger.settle(settle)).toBe("settled");
  expect(settle.result.attempts.map(({ attempt }) => attempt)).toEqual([2]);
  expect(await lane.ledger.result("t1", 1)).toMatchObject({ ok: false, generation: 1 });
  expect(await lane.ledger.result("t1", 2)).toMatchObject({ ok: true, generation: 2 });
  expect(await lane.ledger.batchCounts("b")).toMatchObject({ outcomes: { ok: 1, failed: 0 }, attempts: 2, passed: 1 });
});

test("B12: a retry of what is open, or was retried by somebody else, opens nothing", async () => {
  expect(await lane.openGeneration("ghost", 1, "n")).toEqual({ kind: "missing" });
  await lane.submit({ id: "t1" });
  expect(await lane.openGeneration("t1", 1, "n")).toEqual({ kind: "open", generation: 1 });
  await failed("t1");
  expect(await lane.openGeneration("t1", 1, "mine")).toEqual({ kind: "opened", generation: 2 });
  expect(await lane.openGeneration("t1", 1, "theirs")).toEqual({ kind: "open", generation: 2 });
  expect(await lane.openGeneration("t1", 1, "mine")).toEqual({ kind: "opened", generation: 2 });
});

test("two retries at once open one generation with one job", async () => {
  const single = await TestLane.open(server.url);
  await single.submit({ id: "t1" });
  await single.settled("t1");
  const answers = await Promise.all([
    retryTurn(single.lane, "t1"),
    retryTurn(single.lane, "t1"),
    retryTurn(single.lane, "t1"),
  ]);
  expect(answers.filter(({ kind }) => kind === "opened")).toHaveLength(1);
  expect(await single.redis.lrange(single.bull("wait"), 0, -1)).toEqual(["t1~2", "t1"]);
  expect(await checkLane(single.redis, single.name)).toEqual([]);
  await single.close();
});

test("a retry after Redis has lost its scripts opens one generation with one job", async () => {
  await lane.submit({ id: "t1" });
  await lane.settled("t1");
  await lane.redis.script("FLUSH");
  expect(await retryTurn(lane.lane, "t1")).toEqual({ kind: "opened", generation: 2 });
  expect(await lane.redis.lrange(lane.bull("wait"), 0, -1)).toContain("t1~2");
  expect(await retryTurn(lane.lane, "t1")).toEqual({ kind: "not_settled" });
});

test("a session's retried turn stands at the end and its job is parked", async () => {
  await lane.submit({ id: "t1", session: "s" }, { id: "t2", session: "s" });
  await failed("t1");
  expect(await retryTurn(new LaneSet(lane.redis, SILENT).get(lane.name), "t1")).toEqual({
    kind: "opened",
    generation: 2,
  });
  expect(await lane.state("t1")).toBe("parked");
  expect(await lane.redis.zrange(lane.bull("delayed"), "0", "-1")).toContain("t1~2");
  await lane.settled("t2");
  expect(await lane.redis.lrange(lane.bull("wait"), 0, -1)).toContain("t1~2");
  expect(await lane.run("t1")).toMatchObject({ iteration: 2 });
});
