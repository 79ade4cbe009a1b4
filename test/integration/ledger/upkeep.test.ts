import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { commandOf, type ScriptName } from "../../../src/ledger/scripts.ts";
import { laneTag } from "../../../src/ledger/keys.ts";
import { laneUpkeep, type LaneUpkeep } from "../../../src/ledger/upkeep.ts";
import { retryTurn } from "../../../src/queue/retry.ts";
import { checkLane } from "../../check-lane.ts";
import { settlement, TestLane, testRecord } from "../../lane.ts";
import { throwAwayRedis, type ThrowAwayRedis } from "../../redis.ts";
import { dump } from "../../twice.ts";

/** Ten days ago: older than anything that is kept. */
const LONG_AGO_MS = 10 * 86_400_000;
const WEEK_MS = 7 * 86_400_000;

let server: ThrowAwayRedis;
let lane: TestLane;
let upkeep: LaneUpkeep;
beforeAll(async () => {
  server = await throwAwayRedis({ appendfsync: "no" });
});
afterAll(async () => {
  await server.stop();
});
beforeEach(async () => {
  // Invariant 13: each script below is executed twice, and compared.
  lane = await TestLane.open(server.url, { twice: true });
  upkeep = laneUpkeep(lane.redis, lane.name);
});
afterEach(async () => {
  expect(await checkLane(lane.redis, lane.name)).toEqual([]);
  await lane.close();
});

async function call(name: ScriptName, ...args: (string | number)[]): Promise<unknown> {
  const script: (...args: unknown[]) => Promise<unknown> = Reflect.get(lane.redis, commandOf(name));
  return script.call(lane.redis, laneTag(lane.name), ...args);
}

async function faults(deep = false): Promise<string[]> {
  const { faults: found } = await upkeep.scan("", 500, deep);
  return found.map(({ kind, subject }) => `${kind} ${subject}`);
}

/** Has turns settled ten days ago. */
async function age(...turns: readonly string[]): Promise<void> {
  const at = Date.now() - LONG_AGO_MS;
  for (const turn of turns) {
    await lane.redis.hset(lane.key("row", turn), "settledAt", at);
    await lane.redis.zadd(lane.key("state", "settled"), "XX", at, turn);
  }
}

/** Removes what is older than a week, or more than `maxSettled`. */
async function removeOld(maxSettled = 1000): Promise<string[]> {
  const endedBy = Date.now() - WEEK_MS;
  const { turns, settledBy } = await upkeep.aged("", endedBy, maxSettled, 100);
  await upkeep.retire(
    turns.map(({ turn }) => turn),
    settledBy,
    endedBy,
  );
  return turns.map(({ turn }) => turn);
}

/** Every key that names a turn. */
async function keysOf(turn: string): Promise<string[]> {
  return (await lane.redis.keys(`${laneTag(lane.name)}*${turn}*`)).toSorted();
}

test("one worker has a lane's upkeep at a time: a claim keeps others away, is renewed, ends and can be given up", async () => {
  expect(await upkeep.claim("a", 60_000)).toEqual({ scanPlace: "", agedPlace: "", strayPlace: "", batchPlace: "" });
  expect(await upkeep.claim("b", 60_000)).toBeUndefined();
  await upkeep.giveUp("b");
  expect(await upkeep.claim("a", 60_000)).toBeDefined();
  await upkeep.note("n1", 2, { scanPlace: "waiting 1/1" });
  await upkeep.giveUp("a");
  expect(await upkeep.claim("b", 60_000)).toMatchObject({ scanPlace: "waiting 1/1" });
  await upkeep.note("n2", 1, { scanPlace: "" });
  expect(await lane.redis.hget(lane.key("lane"), "repairs")).toBe("3");
});

test("a scan reads a page from a place on, over all unsettled states, each turn once", async () => {
  await lane.submit(...Array.from({ length: 7 }, (_, i) => ({ id: `w${i}` })), { id: "d", delayMs: 60_000 });
  await lane.submit({ id: "s1", session: "s" }, { id: "s2", session: "s" });
  await lane.run("w3");
  let place = "";
  const rows: number[] = [];
  do {
    const page = await upkeep.scan(place, 3, false);
    expect(page.faults).toEqual([]);
    expect(page.missing).toBe(0);
    rows.push(page.rows);
    place = page.next;
  } while (place !== "");
  expect(rows.reduce((sum, count) => sum + count)).toBe(10);
  expect(Math.max(...rows)).toBe(3);
  await lane.redis.lpop(lane.bull("wait"));
  expect(await upkeep.scan("", 3, false)).toMatchObject({ rows: 3, missing: 1 });
});

test("invariant 2: a turn whose job is gone, finished, half, or in none of BullMQ's lists is found, and only that", async () => {
  await lane.submit({ id: "ok" }, { id: "gone" }, { id: "done" }, { id: "half" }, { id: "astray" }, { id: "ran" });
  await lane.redis.del(lane.bull("gone"));
  await lane.redis.lrem(lane.bull("wait"), 0, "gone");
  await lane.redis.hset(lane.bull("done"), "finishedOn", 1);
  await lane.redis.lrem(lane.bull("wait"), 0, "done");
  await lane.redis.zadd(lane.bull("completed"), 1, "done");
  await lane.redis.hdel(lane.bull("half"), "name");
  await lane.redis.lrem(lane.bull("wait"), 0, "astray");
  await lane.settled("ran");
  await lane.redis.del(lane.bull("ran"));
  expect(await faults()).toEqual(["job done", "job gone", "job half"]);
  expect(await faults(true)).toEqual(["job astray", "job done", "job gone", "job half"]);
  for (const turn of ["gone", "done", "half", "astray"]) {
    expect(await call("clear", turn, turn)).toBe(1);
    expect(await lane.redis.exists(lane.bull(turn))).toBe(0);
  }
  expect(await call("clear", "ok", "ok")).toBe(0);
  expect(await call("clear", "ok", "another job")).toBe(0);
  expect(await call("clear", "ran", "ran")).toBe(0);
  expect(await call("clear", "ghost", "ghost")).toBe(0);
  expect(await lane.redis.lrange(lane.bull("wait"), 0, -1)).toEqual(["ran", "ok"]);
  expect(await lane.redis.zcard(lane.bull("completed"))).toBe(0);
});

test("a turn that somebody runs is left alone while its lease holds; afterwards its attempt is lost, whatever delivery comes", async () => {
  await lane.ledger.renew([]);
  await lane.submit({ id: "t1" });
  const delivery = await lane.fetch("t1", "token");
  const begun = await lane.ledger.begin(delivery, "w1", false);
  expect(begun.kind).toBe("run");
  await lane.redis.del(lane.bull("t1"), lane.bull("t1:lock"));
  expect(await faults(true)).toEqual([]);
  expect(await call("clear", "t1", "t1")).toBe(0);
  await lane.endLease("t1", 1);
  expect(await faults()).toEqual(["job t1"]);
  expect(await call("clear", "t1", "t1")).toBe(1);
  // The new job counts its deliveries from 1 again, and the worker's token may be the same.
  expect(await lane.fetch("t1", "token")).toEqual(delivery);
  expect(await lane.ledger.begin(delivery, "w1", false)).toMatchObject({ kind: "lost", attempt: 1 });
});

test("sessions are put right: a settled turn, a corrupt one or none at all does not hold up those behind it", async () => {
  await lane.submit(...["t1", "t2", "t3", "t4"].map((id) => ({ id, session: "s" })));
  expect(await faults()).toEqual([]);
  await lane.settled("t1");
  // What a script would have taken out is in the queue again, with a turn that never was, and t2 is parked once more.
  await lane.redis.zadd(lane.key("sessionQueue", "s"), -2, "t1", -1, "ghost");
  await lane.redis.hset(lane.key("row", "t2"), "state", "parked");
  await lane.redis.zrem(lane.key("state", "waiting"), "t2");
  await lane.redis.zadd(lane.key("state", "parked"), 1, "t2");
  expect(await faults()).toContain("session t2");
  await upkeep.mend([{ kind: "session", subject: "t2" }]);
  expect(await lane.redis.zrange(lane.key("sessionQueue", "s"), "0", "-1")).toEqual(["t2", "t3", "t4"]);
  expect(await lane.state("t2")).toBe("waiting");
  expect(await faults()).toEqual([]);
  // The head's job was never woken.
  await lane.redis.lrem(lane.bull("wait"), 0, "t2");
  await lane.redis.zadd(lane.bull("delayed"), (Date.now() + 3_600_000) * 0x1000, "t2");
  expect(await faults()).toEqual(["session t2"]);
  await upkeep.mend([{ kind: "session", subject: "t2" }]);
  expect(await lane.redis.lrange(lane.bull("wait"), 0, -1)).toContain("t2");
  // A turn that is not in the queue would wait for ever.
  await lane.redis.zrem(lane.key("sessionQueue", "s"), "t4");
  expect(await faults()).toEqual(["session t4"]);
  await upkeep.mend([{ kind: "session", subject: "t4" }]);
  expect(await lane.redis.zrange(lane.key("sessionQueue", "s"), "0", "-1")).toEqual(["t2", "t3", "t4"]);
  // A row that can never be read stands for a turn that can never run.
  await lane.redis.zadd(lane.key("sessionQueue", "s"), -1, "broken");
  await lane.redis.set(lane.key("row", "broken"), "no hash");
  expect(await faults()).toContain("session t3");
  await upkeep.mend([{ kind: "session", subject: "t3" }]);
  expect(await faults()).toEqual([]);
  await lane.redis.del(lane.key("row", "broken"));
});

test("indexes are put right by the rows: states, leases, expiries", async () => {
  await lane.submit({ id: "t1" }, { id: "t2" });
  await lane.redis.zadd(lane.key("state", "running"), 1, "t1", 1, "ghost");
  await lane.redis.zrem(lane.key("state", "waiting"), "t1");
  await lane.redis.zadd(lane.key("leases"), 1, "t1#1", 1, "ghost#7", 1, "odd");
  await lane.redis.zadd(lane.key("expiry"), 1, "t2", 1, "ghost");
  const found = (await upkeep.scan("", 500, false)).faults;
  expect(found.map(({ kind, subject }) => `${kind} ${subject}`).toSorted()).toEqual([
    "expiry ghost",
    "expiry t2",
    "index:running ghost",
    "index:running t1",
    "lease ghost#7",
    "lease t1#1",
  ]);
  await upkeep.mend(found);
  expect(await faults()).toEqual([]);
  await lane.redis.zrem(lane.key("leases"), "odd");
});

test("D16: rows that cannot be read are named, and the others are looked at", async () => {
  await lane.submit({ id: "t1" }, { id: "t2" }, { id: "t3" });
  await lane.redis.set(lane.key("row", "t2"), "no hash");
  await lane.redis.hset(lane.key("row", "t1"), "job", "");
  await lane.redis.del(lane.bull("t3"));
  expect(await faults()).toEqual(["corrupt t1", "corrupt t2", "job t3"]);
  await upkeep.mend([
    { kind: "session", subject: "t2" },
    { kind: "index:waiting", subject: "t2" },
    { kind: "lease", subject: "t2#1" },
    { kind: "expiry", subject: "t2" },
  ]);
  expect(await faults()).toEqual(["corrupt t1", "corrupt t2", "job t3"]);
  expect(await call("clear", "t2", "t2")).toBe(0);
  await lane.redis.del(lane.key("row", "t2"));
  await lane.redis.zrem(lane.key("state", "waiting"), "t2");
});

test("invariant 12: a turn that is removed leaves no key: row, request, attempts, records, Results, streams, jobs, places", async () => {
  await lane.submit({ id: "old" }, { id: "young" }, { id: "open" });
  await lane.settled("old");
  await retryTurn(lane.lane, "old");
  const second = await lane.run("old");
  await lane.ledger.append("old", 2, [{ turn: "old", attempt: 2, seq: 5, at: 1, type: "text_delta", text: "x" }]);
  await lane.ledger.settle(settlement(second.facts, testRecord(second)));
  await lane.redis.del(lane.bull("old:lock"), lane.bull("old~2:lock"));
  await lane.settled("young");
  expect((await keysOf("old")).length).toBeGreaterThan(8);
  await age("old");
  expect(await removeOld()).toEqual(["old"]);
  expect(await keysOf("old")).toEqual([]);
  for (const [key, value] of await dump(lane.redis, laneTag(lane.name)))
    if (!key.endsWith(":events")) expect(JSON.stringify(value), key).not.toMatch(/old/);
  expect(await lane.ledger.row("young")).toMatchObject({ state: "settled" });
  // Its id is new.
  expect(await lane.submit({ id: "old", input: "other content" })).toEqual(["stored"]);
  expect(await lane.run("old")).toMatchObject({ attempt: 1 });
});

test("a batch that is unfinished, or ended within the age, keeps its turns; afterwards its counts outlive them", async () => {
  const of = (sample: string) => ({ id: `b-${sample}`, batch: { id: "b", sample, epoch: 1 } });
  await lane.submit(of("1"), of("2"), of("3"));
  const more = { expect: [{ type: "equals", value: "out" } as const] };
  await lane.submit({ ...of("4"), ...more });
  for (const turn of ["b-1", "b-4"]) await lane.settled(turn);
  await age("b-1", "b-4");
  expect(await removeOld()).toEqual([]);
  for (const turn of ["b-2", "b-3"]) await lane.settled(turn);
  await age("b-2");
  expect(await removeOld()).toEqual([]);
  await age("b-3");
  const before = await lane.ledger.batchCounts("b");
  expect((await upkeep.aged("", Date.now() - WEEK_MS, 1000, 3)).turns).toHaveLength(3);
  expect(await upkeep.batchEnded("b", Date.now())).toBe(true);
  expect(await upkeep.batchEnded("b", 1)).toBe(false);
  await upkeep.retire(["b-1", "b-4"], Date.now(), Date.now());
  expect(await checkLane(lane.redis, lane.name)).toEqual([]);
  expect((await upkeep.audit("", 10, 0)).faults).toEqual([]);
  expect((await removeOld()).toSorted()).toEqual(["b-2", "b-3"]);
  expect(await lane.ledger.batchCounts("b")).toEqual({ ...before, retired: 4 });
  // The same cells again are new turns of the batch.
  expect(await lane.submit(of("1"))).toEqual(["stored"]);
  expect(await lane.ledger.batchCounts("b")).toMatchObject({
    turns: 5,
    states: { waiting: 1, settled: 4 },
    retired: 4,
  });
});

test("invariant 12: the counts of a batch go too, long after its last turn", async () => {
  await lane.submit({ id: "b-1", batch: { id: "b", sample: "1", epoch: 1 } });
  await lane.settled("b-1");
  await age("b-1");
  await removeOld();
  expect((await upkeep.audit("", 10, Date.now() - 1000)).faults).toEqual([]);
  await upkeep.dropBatch("b", Date.now() - 1000);
  expect(await lane.ledger.batchCounts("b")).toBeDefined();
  expect((await upkeep.audit("", 10, Date.now() + 1000)).faults).toEqual([{ kind: "old", batch: "b" }]);
  await upkeep.dropBatch("b", Date.now() + 1000);
  expect(await lane.ledger.batchCounts("b")).toBeUndefined();
  expect([...(await dump(lane.redis, `${laneTag(lane.name)}/`)).keys()]).toEqual([lane.key("lane")]);
});

test("a session keeps its turns while one is unsettled; with its last turn, over all generations, its keys go", async () => {
  await lane.submit({ id: "t1", session: "s" }, { id: "t2", session: "s" });
  await lane.settled("t1");
  await age("t1");
  expect(await removeOld()).toEqual([]);
  await lane.settled("t2");
  expect(await removeOld()).toEqual(["t1"]);
  expect(await lane.redis.llen(lane.key("messages", "s"))).toBe(2);
  await retryTurn(lane.lane, "t2");
  await lane.settled("t2");
  await age("t2");
  expect(await removeOld()).toEqual(["t2"]);
  const left = [...(await dump(lane.redis, `${laneTag(lane.name)}/`)).keys()];
  expect(left).toEqual([lane.key("lane")]);
  await lane.redis.set("turnq:session:s", lane.name);
  await lane.redis.set("turnq:session:other", "another lane");
  expect(await upkeep.unbind(["s", "other"])).toEqual(["s", "other"]);
  expect(await lane.redis.pttl("turnq:session:s")).toBeGreaterThan(500_000);
  expect(await lane.redis.pttl("turnq:session:other")).toBe(-1);
  // A turn that was being stored at that moment: the session is bound again.
  await lane.submit({ id: "t3", session: "s" });
  await upkeep.rebind(["s", "other"]);
  expect(await lane.redis.pttl("turnq:session:s")).toBe(-1);
  expect(await lane.redis.get("turnq:session:s")).toBe(lane.name);
  expect(await upkeep.unbind(["s"])).toEqual([]);
});

test("of more settled turns than are kept the oldest go, whatever their age", async () => {
  await lane.submit(...["t1", "t2", "t3", "t4"].map((id) => ({ id })));
  for (const [i, id] of ["t3", "t1", "t4", "t2"].entries()) {
    await lane.settled(id);
    await lane.redis.zadd(lane.key("state", "settled"), "XX", 1000 + i, id);
    await lane.redis.hset(lane.key("row", id), "settledAt", 1000 + i);
  }
  const { turns, settledBy } = await upkeep.aged("", 0, 2, 100);
  expect(turns.map(({ turn }) => turn)).toEqual(["t3", "t1"]);
  await upkeep.retire(["t3", "t1", "t4"], settledBy, 0);
  expect(await lane.redis.zrange(lane.key("state", "settled"), "0", "-1")).toEqual(["t4", "t2"]);
});

test("a batch's counts are corrected, unless they change meanwhile", async () => {
  await lane.submit({ id: "b-1", batch: { id: "b", sample: "1", epoch: 1 } });
  await lane.redis.hset(lane.key("batch", "b"), "s:waiting", 5);
  expect((await upkeep.audit("", 10, 0)).faults).toEqual([{ kind: "sums", batch: "b" }]);
  const wrong = [{ field: "s:waiting", found: "5", due: "1" }];
  expect(await upkeep.recount("b", [{ field: "turns", found: "2", due: "2" }, ...wrong])).toBe(false);
  expect(await lane.redis.hget(lane.key("batch", "b"), "s:waiting")).toBe("5");
  expect(await upkeep.recount("b", [{ field: "turns", found: "1", due: "1" }, ...wrong])).toBe(true);
  expect((await upkeep.audit("", 10, 0)).faults).toEqual([]);
});

test("A14: a turn of a batch whose row is gone counts as settled, without an outcome", async () => {
  const of = (sample: string) => ({ id: `b-${sample}`, batch: { id: "b", sample, epoch: 1 } });
  await lane.submit(of("1"), of("2"));
  await lane.redis.del(lane.key("row", "b-2"));
  await lane.redis.zrem(lane.key("state", "waiting"), "b-2");
  await upkeep.takeOut("b", ["b-1", "b-2"]);
  await upkeep.recount("b", [
    { field: "s:waiting", found: "2", due: "1" },
    { field: "s:settled", found: "", due: "1" },
  ]);
  expect((await upkeep.audit("", 10, 0)).faults).toEqual([]);
  await lane.settled("b-1");
  expect(await lane.ledger.batchCounts("b")).toMatchObject({ turns: 2, states: { settled: 2 }, outcomes: { ok: 1 } });
});
