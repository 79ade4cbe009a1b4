import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { contentHash } from "../../../src/queue/content-hash.ts";
import { jobId, laneTag } from "../../../src/ledger/keys.ts";
import { submitArguments } from "../../../src/ledger/arguments.ts";
import { storedRequest } from "../../agents.ts";
import { checkLane } from "../../check-lane.ts";
import { TestLane } from "../../lane.ts";
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

/** The jobs that stand in one of BullMQ's lists or sets. */
async function standing(kind: "wait" | "delayed"): Promise<string[]> {
  return kind === "wait"
    ? lane.redis.lrange(lane.bull("wait"), 0, -1)
    : lane.redis.zrange(lane.bull("delayed"), "0", "-1");
}

/** Has the replies of the next EXECs lost after Redis carried them out, as by a cut connection. */
async function loseReplies(times: number): Promise<{ readonly left: () => number }> {
  let left = times;
  const { redis } = lane;
  const multi = redis.multi.bind(redis) as () => { exec(): Promise<unknown> };
  Reflect.set(redis, "multi", () => {
    const transaction = multi();
    const exec = transaction.exec.bind(transaction);
    transaction.exec = async () => {
      const replies = await exec();
      if (left-- > 0) throw new Error("Connection is closed.");
      return replies;
    };
    return transaction;
  });
  return { left: () => left };
}

test("a turn is stored, with its job, once", async () => {
  expect(await lane.submit({ id: "t1", batch: { id: "b", sample: "1", epoch: 1 } })).toEqual(["stored"]);
  expect(await lane.ledger.row("t1")).toMatchObject({
    state: "waiting",
    generation: 1,
    attempt: 0,
    job: "t1",
    batch: "b",
    sample: "1",
    epoch: 1,
    preview: "hello",
  });
  expect(await lane.ledger.request("t1")).toMatchObject({ id: "t1", input: "hello" });
  expect(await standing("wait")).toEqual(["t1"]);
  expect((await lane.lane.queue.getJob("t1"))?.data).toMatchObject({
    v: 1,
    turn: "t1",
    agent: "a",
    batch: "b",
    input: "hello",
    crashed: [],
  });
});

test("A22: the same id and content is a duplicate, other content a conflict, and neither changes anything", async () => {
  await lane.submit({ id: "t1" });
  const before = await dump(lane.redis, `${laneTag(lane.name)}/`);
  expect(await lane.submit({ id: "t1" }, { id: "t1", input: "other" })).toEqual(["duplicate", "conflict"]);
  expect(await dump(lane.redis, `${laneTag(lane.name)}/`)).toEqual(before);
});

test("A22: a duplicate of a settled turn does not run it again, and limits, retry and labels stay as first submitted", async () => {
  await lane.submit({ id: "t1", labels: { a: "1" } });
  await lane.settled("t1");
  expect(await lane.submit({ id: "t1", labels: { a: "2" }, limits: { timeoutMs: 5, graceMs: 5 } })).toEqual([
    "duplicate",
  ]);
  expect(await lane.state("t1")).toBe("settled");
  expect(await lane.ledger.request("t1")).toMatchObject({ labels: { a: "1" }, limits: { timeoutMs: 600_000 } });
});

test("A23: the second of two equal ids in one chunk is a duplicate, the second with other content a conflict", async () => {
  expect(await lane.submit({ id: "x" }, { id: "x" }, { id: "y" }, { id: "y", input: "other" })).toEqual([
    "stored",
    "duplicate",
    "stored",
    "conflict",
  ]);
  expect((await standing("wait")).toSorted()).toEqual(["x", "y"]);
});

test("D13: when the reply of a submit is lost, the chunk is sent again, answers as the first time and is stored once", async () => {
  await lane.submit({ id: "old" });
  const losing = await loseReplies(2);
  const answers = await lane.submit(
    { id: "old" },
    { id: "new", batch: { id: "b", sample: "1", epoch: 1 } },
    { id: "new", batch: { id: "b", sample: "1", epoch: 1 } },
  );
  expect(answers).toEqual(["duplicate", "stored", "duplicate"]);
  expect(losing.left()).toBeLessThanOrEqual(0);
  expect((await standing("wait")).toSorted()).toEqual(["new", "old"]);
  expect(await lane.ledger.batchCounts("b")).toMatchObject({ turns: 1 });
});

test("D14: three submits of one id at once make one turn, and two are told so", async () => {
  const single = await TestLane.open(server.url);
  try {
    const answers = await Promise.all([
      single.submit({ id: "x" }),
      single.submit({ id: "x" }),
      single.submit({ id: "x" }),
    ]);
    expect(answers.flat().toSorted()).toEqual(["duplicate", "duplicate", "stored"]);
    expect(await checkLane(single.redis, single.name)).toEqual([]);
  } finally {
    await single.close();
  }
});

test("after SCRIPT FLUSH a submit stores everything once, whichever script was missing inside EXEC", async () => {
  await lane.submit({ id: "t0" });
  await lane.redis.script("FLUSH");
  const requests = [
    { id: "t0" },
    { id: "t1", session: "s" },
    { id: "t2", session: "s" },
    { id: "t3", batch: { id: "b", sample: "1", epoch: 1 } },
  ];
  expect(await lane.submit(...requests)).toEqual(["duplicate", "stored", "stored", "stored"]);
  // Only the script of the rows is known: the EXEC stored the rows but no job.
  await lane.redis.script("FLUSH");
  await Reflect.get(lane.redis, "turnq_submit").call(lane.redis, laneTag(lane.name), "nonce");
  expect(await lane.submit({ id: "t4" }, { id: "t4" })).toEqual(["stored", "duplicate"]);
  // Only BullMQ's is known: the EXEC stored the job but no row.
  await lane.redis.script("FLUSH");
  await lane.lane.queue.add("a", {}, { jobId: "stray" });
  expect(await lane.submit({ id: "t5" })).toEqual(["stored"]);
  expect((await standing("wait")).toSorted()).toEqual(["stray", "t0", "t1", "t3", "t4", "t5"]);
  expect(await standing("delayed")).toEqual(["t2"]);
  expect(await lane.submit({ id: "t1", session: "s" }, { id: "t4" }, { id: "t5" })).toEqual([
    "duplicate",
    "duplicate",
    "duplicate",
  ]);
});

test("an EXEC that Redis refuses stores nothing and throws", async () => {
  await lane.redis.config("SET", "maxmemory", "1");
  try {
    await expect(lane.submit({ id: "t1" })).rejects.toThrow(/OOM|EXECABORT/);
  } finally {
    await lane.redis.config("SET", "maxmemory", "0");
  }
  expect(await lane.ledger.row("t1")).toBeUndefined();
  expect(await lane.submit({ id: "t1" })).toEqual(["stored"]);
});

test("a session's first turn waits, those behind it are parked, and only the head's job is woken", async () => {
  expect(await lane.submit({ id: "t1", session: "s" }, { id: "t2", session: "s" })).toEqual(["stored", "stored"]);
  expect(await lane.submit({ id: "t3", session: "s" })).toEqual(["stored"]);
  expect(await Promise.all(["t1", "t2", "t3"].map((id) => lane.state(id)))).toEqual(["waiting", "parked", "parked"]);
  expect(await standing("wait")).toEqual(["t1"]);
  expect((await standing("delayed")).toSorted()).toEqual(["t2", "t3"]);
  await lane.ledger.wake(["s", "nobody"]);
  expect(await standing("wait")).toEqual(["t1"]);
  expect(await lane.redis.hget(lane.bull("t1"), "delay")).toBe("0");
});

test("a woken head that backs off or runs is left alone", async () => {
  await lane.submit({ id: "t1", session: "s" });
  await lane.run("t1");
  const before = await dump(lane.redis, laneTag(lane.name));
  await lane.ledger.wake(["s"]);
  expect(await dump(lane.redis, laneTag(lane.name))).toEqual(before);
});

test("A20: ids of digits, with a colon or a slash are stored as they are and have a job that BullMQ takes", async () => {
  const ids = ["123", "-5", "0", "NaN", "a:b", "a:b:c", "0:1", "1.5", "x/y", "@", "a".repeat(200)];
  expect(await lane.submit(...ids.map((id) => ({ id })))).toEqual(ids.map(() => "stored"));
  for (const id of ids) {
    expect(await lane.ledger.row(id)).toMatchObject({ id, job: jobId(id) });
    expect((await lane.lane.queue.getJob(jobId(id)))?.data).toMatchObject({ turn: id });
    await lane.settled(id);
    expect(await lane.ledger.result(id, 1)).toMatchObject({ turn: id, ok: true });
  }
});

test("the script alone gives the same answers and rows when it is sent again with its nonce", async () => {
  const submit = Reflect.get(lane.redis, "turnq_submit") as (...args: unknown[]) => Promise<unknown>;
  const turns = [{ id: "t1" }, { id: "t2", session: "s" }, { id: "t1" }].map((more) =>
    storedRequest({ lane: lane.name, ...more }),
  );
  const args = submitArguments(
    "nonce-1",
    turns.map((request) => ({ request, hash: contentHash(request) })),
  );
  expect(await submit.call(lane.redis, laneTag(lane.name), ...args)).toEqual(["stored", "stored", "duplicate"]);
});

test("a list goes on behind a turn that has left the state since, or has left it and come back", async () => {
  const ids = ["t1", "t2", "t3", "t4"];
  await lane.submit(...ids.map((id) => ({ id })));
  const key = lane.key("state", "waiting");
  for (const [i, id] of ids.entries()) await lane.redis.zadd(key, "XX", 1000 + i, id);
  const turnsBehind = async (place: { turn: string; at: number }): Promise<string[]> =>
    (await lane.ledger.stateTurns("waiting", place, 10)).map(({ turn }) => turn);
  const [, place = { turn: "", at: 0 }] = await lane.ledger.stateTurns("waiting", undefined, 2);
  expect(place).toEqual({ turn: "t3", at: 1002 });
  expect(await turnsBehind(place)).toEqual(["t2", "t1"]);
  await lane.redis.zadd(key, "XX", 2000, "t3");
  expect(await turnsBehind(place)).toEqual(["t2", "t1"]);
  await lane.redis.zrem(key, "t3");
  expect(await turnsBehind(place)).toEqual(["t2", "t1"]);
  await lane.redis.zadd(key, 1002, "t3");
});
