import { afterAll, beforeAll, expect, test } from "vitest";
import { defineAgent, specOf } from "../../../src/agent/define-agent.ts";
import { laneKey, laneTag, sessionLaneKey, STORE_KEYS } from "../../../src/ledger/keys.ts";
import { Directory } from "../../../src/queue/directory.ts";
import { LaneSet } from "../../../src/queue/lane-set.ts";
import { Reconciler, type Round } from "../../../src/queue/reconciler.ts";
import type { Retention } from "../../../src/queue/retention.ts";
import { contentHash } from "../../../src/queue/content-hash.ts";
import { submitChunk } from "../../../src/queue/submit-chunk.ts";
import { SILENT } from "../../../src/telemetry/log.ts";
import { storedRequest } from "../../agents.ts";
import { throwAwayRedis, type ThrowAwayRedis } from "../../redis.ts";
import { dump } from "../../twice.ts";
import { Scene, until } from "./scene.ts";

const DAY_MS = 86_400_000;

let server: ThrowAwayRedis;
let scene: Scene;
let lanes: LaneSet;
beforeAll(async () => {
  server = await throwAwayRedis({ appendfsync: "no" });
  scene = await Scene.open(server.url);
  lanes = new LaneSet(scene.redis, SILENT);
  scene.onClose(() => lanes.close());
});
afterAll(async () => {
  await scene.close();
  await server.stop();
});

function reconcilerOf(name: string, retention: Retention = {}): Reconciler {
  const lane = lanes.get(name);
  const upkeep = lanes.upkeep(name);
  return new Reconciler({ lane, upkeep, log: SILENT, otherLanes: () => lanes.upkeeps(), retention });
}

async function round(name: string, retention: Retention = {}): Promise<Round> {
  const reconciler = reconcilerOf(name, retention);
  try {
    return await reconciler.round();
  } finally {
    await reconciler.stop();
  }
}

/** Has everything in the lane settled and finished so long ago. */
async function age(name: string, days: number): Promise<void> {
  const at = Date.now() - days * DAY_MS;
  for (const turn of await scene.redis.zrange(laneKey(name, "state", "settled"), "0", "-1")) {
    await scene.redis.hset(laneKey(name, "row", turn), "settledAt", at);
    await scene.redis.zadd(laneKey(name, "state", "settled"), "XX", at, turn);
  }
  for (const set of ["completed", "failed"])
    for (const job of await scene.redis.zrange(scene.bull(name, set), "0", "-1"))
      await scene.redis.zadd(scene.bull(name, set), "XX", at, job);
}

/** Runs turns to their Results, told to BullMQ. */
async function settled(name: string, ids: readonly string[], more: object = {}): Promise<void> {
  for (const id of ids) await scene.turnq.submit({ agent: name, input: id, id, ...more });
  for (const id of ids) await (await scene.turnq.turn(id, { lane: name })).result({ waitMs: 20_000 });
  for (const id of ids) await scene.told(name, id);
}

test("invariant 12: after their age nothing is left of turns, sessions and jobs, and their ids are new", async () => {
  await scene.worker([defineAgent("aged", ({ text }) => text)]);
  const ids = Array.from({ length: 30 }, (_, i) => `t${i}`);
  await settled("aged", ids);
  await settled("aged", ["s1", "s2"], { session: "aged-session" });
  await scene.queue("aged").add("aged", {}, { jobId: "stray" });
  await scene.told("aged", "stray");
  expect(await round("aged")).toMatchObject({ retired: 0 });
  await age("aged", 8);
  expect(await round("aged")).toMatchObject({ retired: 32 });
  const left = [...(await dump(scene.redis, laneTag("aged"))).keys()].filter(
    (key) => !/:(events|id|stalled-check|limiter)/.test(key),
  );
  expect(left.toSorted()).toEqual([laneKey("aged", "lane")]);
  await settled("aged", ["t1"]);
  expect((await scene.turnq.submit({ agent: "aged", input: "t1", id: "t1" })).duplicate).toBe(true);
});

test("invariants 7 and 12: a session without turns may live in another lane, but not while a turn of it may be on its way", async () => {
  const bound = sessionLaneKey("free-session");
  await scene.worker([defineAgent("freed", () => "x")]);
  await scene.publish(defineAgent("elsewhere", () => "x"));
  const elsewhere = () => scene.turnq.submit({ agent: "elsewhere", input: "x", session: "free-session" });
  const reconciler = reconcilerOf("freed");
  const allRetired = async (): Promise<void> => {
    await age("freed", 8);
    expect(await reconciler.round()).toMatchObject({ retired: 1 });
    expect(await scene.redis.pttl(bound)).toBeGreaterThan(0);
  };
  await settled("freed", ["t1"], { session: "free-session" });
  await allRetired();
  await expect(elsewhere()).rejects.toMatchObject({ code: "session_lane" });
  // A new turn of it keeps it here.
  await settled("freed", ["t2"], { session: "free-session" });
  expect(await scene.redis.pttl(bound)).toBe(-1);
  await allRetired();
  // So does one whose producer has looked before and stores it only now.
  const request = storedRequest({ id: "t3", lane: "freed", agent: "freed", session: "free-session" });
  await submitChunk(lanes.get("freed"), [{ request, hash: contentHash(request) }]);
  await reconciler.round();
  expect(await scene.redis.pttl(bound)).toBe(-1);
  await (await scene.turnq.turn("t3", { lane: "freed" })).result({ waitMs: 20_000 });
  await scene.told("freed", "t3");
  await allRetired();
  await reconciler.stop();
  await scene.redis.pexpire(bound, 1);
  await until(async () => (await scene.redis.exists(bound)) === 0);
  await elsewhere();
  await expect(settled("freed", ["t4"], { session: "free-session" })).rejects.toMatchObject({ code: "session_lane" });
});

test("a batch keeps its turns until all of it, in every lane, is old; then its counts say how many are gone", async () => {
  const one = defineAgent("part-one", () => "x");
  const two = defineAgent("part-two", () => "x");
  await scene.publish(one, two);
  const worker = await scene.worker([one]);
  const batch = await scene.turnq.submitMany(
    ["a", "b", "c"].map((id) => ({ id, input: "x" })),
    { batch: "parts", agents: ["part-one", "part-two"] },
  );
  await until(async () => (await batch.progress()).states.settled === 3);
  for (const id of ["a", "b", "c"]) await scene.told("part-one", `parts:${id}:part-one:1`);
  await worker.close();
  await age("part-one", 30);
  // Unfinished in the other lane.
  expect(await round("part-one")).toMatchObject({ retired: 0 });
  const second = await scene.worker([two]);
  await until(async () => (await batch.progress()).states.settled === 6);
  for (const id of ["a", "b", "c"]) await scene.told("part-two", `parts:${id}:part-two:1`);
  await second.close();
  // Ended there just now.
  expect(await round("part-one")).toMatchObject({ retired: 0 });
  await age("part-two", 8);
  expect(await round("part-one")).toMatchObject({ retired: 3, recounted: 0 });
  expect(await batch.progress()).toMatchObject({ turns: 6, outcomes: { ok: 6 }, retired: 3 });
  expect(await round("part-two")).toMatchObject({ retired: 3 });
  expect(await batch.progress()).toMatchObject({ turns: 6, states: { settled: 6 }, outcomes: { ok: 6 }, retired: 6 });
  const lines = [];
  for await (const line of batch.results()) lines.push(line);
  expect(lines).toEqual([]);
  expect(await round("part-one")).toMatchObject({ recounted: 0, retired: 0 });
});

test("of more settled turns than are kept the oldest go, batches that are not old excepted", async () => {
  await scene.worker([defineAgent("counted", () => "x")]);
  await settled("counted", ["t1", "t2", "t3"]);
  const batch = await scene.turnq.submitMany([{ id: "a", input: "x" }], { batch: "counted", agents: ["counted"] });
  await until(async () => (await batch.progress()).states.settled === 1);
  await settled("counted", ["t4"]);
  expect(await round("counted", { maxSettled: 1 })).toMatchObject({ retired: 3 });
  expect(await scene.redis.zrange(laneKey("counted", "state", "settled"), "0", "-1")).toEqual([
    "counted:a:counted:1",
    "t4",
  ]);
  expect(await scene.redis.zrange(scene.bull("counted", "completed"), "0", "-1")).toEqual(
    expect.arrayContaining(["counted+a+counted+1", "t4"]),
  );
  await scene.check("counted");
});

test("a worker removes old turns by itself", async () => {
  await scene.worker([defineAgent("self", () => "x")], { upkeepEveryMs: 30, retention: { maxAgeMs: 60_000 } });
  await settled("self", ["t1", "t2"]);
  await age("self", 1);
  const rows = ["t1", "t2"].map((turn) => laneKey("self", "row", turn));
  expect(await until(async () => (await scene.redis.exists(...rows)) === 0)).toBe(true);
});

test("agents of workers long gone are known no more; those of a worker that is up are published again and again", async () => {
  const directory = new Directory(scene.redis, [], () => "");
  await scene.publish(
    defineAgent("alive", () => "x"),
    defineAgent("dead", () => "x"),
  );
  const dead = await scene.redis.hget(STORE_KEYS.agents, "dead");
  await scene.redis.hset(STORE_KEYS.agents, {
    dead: JSON.stringify({ ...JSON.parse(dead ?? ""), at: Date.now() - 8 * DAY_MS }),
    odd: "no JSON",
  });
  await directory.refresh();
  expect(directory.names()).toContain("alive");
  expect(directory.names()).not.toContain("dead");
  const soon = Date.now() + 61_000;
  await directory.keepPublished([{ ...directory.find("alive"), name: "alive" } as never], soon);
  expect(await scene.redis.hmget(STORE_KEYS.agents, "dead", "odd")).toEqual([null, null]);
  // Not before its time.
  await scene.redis.hdel(STORE_KEYS.agents, "alive");
  await directory.keepPublished([{ ...directory.find("alive"), name: "alive" } as never], soon + 1000);
  expect(await scene.redis.hexists(STORE_KEYS.agents, "alive")).toBe(0);
  await directory.keepPublished([{ ...directory.find("alive"), name: "alive" } as never], soon + 61_000);
  expect(await scene.redis.hexists(STORE_KEYS.agents, "alive")).toBe(1);
});

test("two workers of one process, each with agents of its own, both publish theirs again and again", async () => {
  const directory = new Directory(scene.redis, [], () => "");
  const [one, two] = ["one", "two"].map((name) => [specOf(defineAgent(name, () => "x"))]);
  for (const at of [1, 2].map((round) => Date.now() + round * 61_000)) {
    await scene.redis.hdel(STORE_KEYS.agents, "one", "two");
    for (const agents of [one, two]) await directory.keepPublished(agents ?? [], at);
    expect(await scene.redis.hkeys(STORE_KEYS.agents)).toEqual(expect.arrayContaining(["one", "two"]));
  }
});
