import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { checkLane } from "../../check-lane.ts";
import { closing, TestLane, testRecord } from "../../lane.ts";
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

const graceUntil = (): Promise<string | null> => lane.redis.hget(lane.key("lane"), "graceUntil");
/** As if the lane's last renewal had been so long ago. */
const silentFor = (ms: number): Promise<number> => lane.redis.hset(lane.key("lane"), "renewedAt", Date.now() - ms);
const leaseEnd = async (turn: string): Promise<number> =>
  Number(await lane.redis.zscore(lane.key("leases"), `${turn}#1`));

test("leases of current attempts are put off; those of others are named lost, in whatever place they stand", async () => {
  await lane.submit({ id: "a" }, { id: "b" }, { id: "c" });
  const [, second] = [await lane.run("a"), await lane.run("b"), await lane.run("c")];
  await lane.ledger.close(closing(second.facts, testRecord(second, { status: "crashed" })), {
    state: "delayed",
    afterMs: 1,
  });
  await Promise.all(["a", "c"].map((turn) => lane.endLease(turn, 1)));
  const open = [
    { turn: "ghost", attempt: 1 },
    { turn: "a", attempt: 1 },
    { turn: "b", attempt: 1 },
    { turn: "c", attempt: 1 },
    { turn: "c", attempt: 2 },
  ];
  expect(await lane.ledger.renew(open)).toEqual({ lost: [open[0], open[2], open[4]], cancelled: [] });
  const now = Date.now();
  for (const turn of ["a", "c"]) expect(await leaseEnd(turn)).toBeGreaterThan(now + 1000);
  expect(await lane.redis.zscore(lane.key("leases"), "b#1")).toBeNull();
});

test("overdue counts open attempts whose lease has ended", async () => {
  await lane.submit({ id: "a" }, { id: "b" });
  await lane.run("a");
  await lane.run("b");
  expect(await lane.ledger.overdue()).toBe(0);
  await lane.endLease("b", 1);
  expect(await lane.ledger.overdue()).toBe(1);
});

test("the first renewal of a lane opens no grace, nor does one without a gap", async () => {
  await lane.ledger.renew([]);
  await lane.ledger.renew([]);
  expect(await graceUntil()).toBeNull();
});

test("a gap opens the grace once: renewals after it do not prolong it", async () => {
  await silentFor(3500);
  await lane.ledger.renew([]);
  const until = Number(await graceUntil());
  expect(until).toBeGreaterThan(Date.now() + 5000);
  await lane.ledger.renew([]);
  expect(Number(await graceUntil())).toBe(until);
  await silentFor(60_000);
  await lane.ledger.renew([]);
  expect(Number(await graceUntil())).toBeGreaterThanOrEqual(until);
});

test("while a gap lasts only a renewal opens the grace: begin does not", async () => {
  await lane.submit({ id: "a" });
  await lane.run("a");
  await lane.endLease("a", 1);
  await silentFor(60_000);
  expect(await lane.begin("a", "w2")).toEqual({ kind: "wait", ms: 1000 });
  expect(await graceUntil()).toBeNull();
});
