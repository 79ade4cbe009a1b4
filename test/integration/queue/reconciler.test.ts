import { afterAll, beforeAll, expect, test } from "vitest";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import type { TurnResult } from "../../../src/domain/turn-result.ts";
import type { LaneUpkeep } from "../../../src/ledger/upkeep.ts";
import { laneKey } from "../../../src/ledger/keys.ts";
import { cancelTurn } from "../../../src/queue/cancel.ts";
import { EVENTS_MAX, LaneSet, type Lane } from "../../../src/queue/lane-set.ts";
import { Reconciler, type ReconcilerOptions } from "../../../src/queue/reconciler.ts";
import { retryTurn } from "../../../src/queue/retry.ts";
import { SILENT, type Log } from "../../../src/telemetry/log.ts";
import { throwAwayRedis, type ThrowAwayRedis } from "../../redis.ts";
import { Gate, QUICK, Scene, until } from "./scene.ts";

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

interface Kept {
  readonly lane: Lane;
  readonly upkeep: LaneUpkeep;
  readonly reconciler: Reconciler;
}

/** A lane with a reconciler that the test drives by hand. */
function keep(name: string, more: Partial<ReconcilerOptions> = {}): Kept {
  const lane = lanes.get(name);
  const upkeep = lanes.upkeep(name);
  const reconciler = new Reconciler({ lane, upkeep, log: SILENT, otherLanes: () => lanes.upkeeps(), ...more });
  return { lane, upkeep, reconciler };
}

/** Keeps what is logged as a warning or worse. */
function warnings(): { readonly log: Log; readonly said: string[] } {
  const said: string[] = [];
  const say = (_facts: object, message: string): void => void said.push(message);
  return { log: { ...SILENT, warn: say, error: say }, said };
}

async function submitted(agent: string, count: number, more: object = {}): Promise<string[]> {
  const ids = Array.from({ length: count }, (_, i) => `t${i}`);
  for (const id of ids) await scene.turnq.submit({ agent, input: id, id, ...more });
  return ids;
}

async function resultOf(lane: string, turn: string): Promise<TurnResult> {
  return (await scene.turnq.turn(turn, { lane })).result({ waitMs: 20_000 });
}

const REMOVALS: readonly (readonly [string, (queue: ReturnType<Scene["queue"]>) => Promise<unknown>])[] = [
  [
    "job.remove",
    async (queue) => Promise.all((await queue.getJobs(["waiting", "delayed"])).map((job) => job.remove())),
  ],
  ["clean", async (queue) => [await queue.clean(0, 1000, "wait"), await queue.clean(0, 1000, "delayed")]],
  ["drain", (queue) => queue.drain(true)],
  ["obliterate", (queue) => queue.obliterate({ force: true })],
];

test.each(REMOVALS)(
  "invariant 2, %s in a dashboard: every unsettled turn gets its job back, with delay, priority and place",
  async (how, remove) => {
    const name = `removed-${how.replace(".", "-")}`;
    const order: string[] = [];
    const agent = defineAgent(name, ({ text }) => {
      order.push(text);
      return text;
    });
    await scene.publish(agent);
    await submitted(name, 5, { priority: 2 });
    await scene.turnq.submit({ agent: name, input: "first", id: "first", priority: 1 });
    await scene.turnq.submit({ agent: name, input: "late", id: "late", delayMs: 3_600_000 });
    for (const id of ["s1", "s2"]) await scene.turnq.submit({ agent: name, input: id, id, session: `s-${name}` });
    await remove(scene.queue(name));
    const { reconciler, lane } = keep(name);
    expect((await reconciler.round()).jobs).toBeGreaterThanOrEqual(3);
    // `clean` and `drain` differ in which lists they empty; nothing is missing afterwards, and a second look finds nothing.
    expect(await reconciler.round()).toMatchObject({ claimed: true, jobs: 0, mended: 0, rows: 9 });
    await scene.check(name);
    const late = await lane.queue.getJob("late");
    expect(await late?.getState()).toBe("delayed");
    expect(late?.delay).toBeGreaterThan(3_500_000);
    expect((await lane.queue.getJob("first"))?.priority).toBe(1);
    expect(await (await lane.queue.getJob("s2"))?.getState()).toBe("delayed");
    await scene.worker([agent], { concurrency: 1 });
    for (const id of ["t0", "t4", "first", "s1", "s2"]) expect(await resultOf(name, id)).toMatchObject({ output: id });
    expect(order.indexOf("s1")).toBeLessThan(order.indexOf("s2"));
    expect(order.indexOf("first")).toBeLessThan(order.indexOf("t0"));
    expect(order).toHaveLength(8);
    await scene.check(name);
  },
);

test("a worker looks after its lanes by itself: what a dashboard obliterates under running turns is run once and ends", async () => {
  const gate = new Gate();
  let runs = 0;
  const agent = defineAgent("under", async ({ text }) => {
    runs += 1;
    await gate.opened;
    return text;
  });
  await scene.worker([agent], { concurrency: 2, leases: QUICK, upkeepEveryMs: 50 });
  const ids = await submitted("under", 6);
  await until(() => runs === 2);
  await scene.queue("under").obliterate({ force: true });
  // Not while they run: their leases hold.
  await until(async () => (await scene.redis.llen(scene.bull("under", "wait"))) >= 4, "the jobs of those that wait");
  gate.open();
  for (const id of ids) await resultOf("under", id);
  expect(runs).toBe(6);
  expect(Number(await scene.redis.hget(laneKey("under", "lane"), "repairs"))).toBeGreaterThanOrEqual(4);
  await until(async () => (await scene.ledger("under").rows(ids)).every((row) => row?.state === "settled"));
  await scene.check("under");
});

test("an open attempt whose lease has ended and whose job is gone is closed as lost, and the turn goes on", async () => {
  const agent = defineAgent("lost", ({ attempt }) => `attempt ${attempt}`);
  await scene.publish(agent);
  const turn = await scene.turnq.submit({ agent: "lost", input: "x", id: "t1", retry: { backoff: { delayMs: 1 } } });
  const { lane, reconciler } = keep("lost");
  // A worker that dies in its attempt, and somebody who removes its job.
  await scene.redis.hincrby(scene.bull("lost", "t1"), "ats", 1);
  await scene.redis.set(scene.bull("lost", "t1:lock"), "token");
  const delivery = { turn: "t1", job: "t1", token: "token", attemptsStarted: 1 };
  expect(await lane.ledger.begin(delivery, "dead", false)).toMatchObject({ kind: "run" });
  await scene.queue("lost").obliterate({ force: true });
  expect(await reconciler.round()).toMatchObject({ jobs: 0 });
  await scene.redis.zadd(laneKey("lost", "leases"), "XX", 1, "t1#1");
  expect(await reconciler.round()).toMatchObject({ jobs: 1 });
  await scene.worker([agent], { leases: QUICK });
  expect(await turn.result({ waitMs: 20_000 })).toMatchObject({
    output: "attempt 2",
    attempts: [{ attempt: 1, status: "lost" }, { attempt: 2 }],
  });
  await scene.told("lost", "t1");
  expect((await scene.queue("lost").getJob("t1"))?.data.crashed).toHaveLength(1);
  await scene.check("lost");
});

test("an unsettled turn whose job BullMQ holds as finished gets it anew, also in a later generation", async () => {
  const agent = defineAgent("finished", ({ text }) => text);
  const { lane, reconciler } = keep("finished");
  const first = await scene.worker([agent]);
  const ids = await submitted("finished", 2);
  for (const id of ids) {
    await resultOf("finished", id);
    await scene.told("finished", id);
  }
  await first.close();
  await retryTurn(lane, "t1");
  await scene.turnq.submit({ agent: "finished", input: "t2", id: "t2" });
  // As a tool that moves jobs would leave them.
  for (const [set, job] of [
    ["completed", "t1~2"],
    ["failed", "t2"],
  ] as const) {
    await scene.redis.lrem(scene.bull("finished", "wait"), 0, job);
    await scene.redis.zadd(scene.bull("finished", set), Date.now(), job);
    await scene.redis.hset(scene.bull("finished", job), "finishedOn", Date.now(), "failedReason", "moved");
  }
  expect(await reconciler.round()).toMatchObject({ jobs: 2 });
  expect(await scene.redis.lrange(scene.bull("finished", "wait"), 0, -1)).toEqual(
    expect.arrayContaining(["t1~2", "t2"]),
  );
  // A settled turn's finished job is as it should be, and so is one that somebody removed.
  await (await lane.queue.getJob("t0"))?.remove();
  expect(await reconciler.round()).toMatchObject({ jobs: 0 });
  expect(await lane.queue.getJob("t0")).toBeUndefined();
  await scene.worker([agent]);
  expect(await resultOf("finished", "t1")).toMatchObject({ generation: 2 });
  await resultOf("finished", "t2");
  expect((await lane.queue.getJob("t2"))?.failedReason ?? "").not.toBe("moved");
  await scene.check("finished");
});

test("invariant 2: jobs that are in none of BullMQ's lists any more are found by the sums", async () => {
  await scene.publish(defineAgent("astray", () => "x"));
  const ids = await submitted("astray", 30);
  await scene.redis.del(scene.bull("astray", "wait"));
  const { reconciler } = keep("astray");
  expect(await reconciler.round()).toMatchObject({ jobs: 30 });
  expect((await scene.redis.lrange(scene.bull("astray", "wait"), 0, -1)).toSorted()).toEqual(ids.toSorted());
  expect(await reconciler.round()).toMatchObject({ jobs: 0 });
});

test("a round is bounded where nothing is missing, goes on where the last one ended, and goes further where jobs are missing", async () => {
  await scene.publish(defineAgent("many", () => "x"));
  await scene.turnq.submitMany(
    Array.from({ length: 1200 }, (_, i) => ({ id: `s${i}`, input: "x" })),
    { batch: "many", agents: ["many"] },
  );
  const { reconciler } = keep("many");
  const rows = [];
  for (let i = 0; i < 4; i++) rows.push((await reconciler.round()).rows);
  expect(rows).toEqual([500, 500, 200, 500]);
  await scene.queue("many").drain(true);
  expect(await scene.redis.llen(scene.bull("many", "wait"))).toBe(0);
  expect((await reconciler.round()).jobs).toBe(1200);
  await scene.check("many");
});

test("D16: corrupt rows are reported once and do not stop the healing of the others", async () => {
  await scene.publish(defineAgent("corrupt", () => "x"));
  await submitted("corrupt", 4);
  await scene.queue("corrupt").drain(true);
  await scene.redis.set(laneKey("corrupt", "row", "t1"), "no hash");
  // A request that cannot be read is no reason to leave its turn without a job: a worker ends it.
  await scene.redis.set(laneKey("corrupt", "request", "t2"), "no request");
  const { log, said } = warnings();
  const { reconciler } = keep("corrupt", { log });
  expect(await reconciler.round()).toMatchObject({ jobs: 3, corrupt: 1 });
  expect(await reconciler.round()).toMatchObject({ jobs: 0, corrupt: 1 });
  expect(said.filter((message) => message.includes("cannot be read"))).toHaveLength(1);
  await scene.worker([defineAgent("corrupt", () => "x")]);
  const results = await Promise.all(["t0", "t2", "t3"].map((id) => resultOf("corrupt", id)));
  expect(results.map(({ status }) => status)).toEqual(["completed", "failed", "completed"]);
});

test("A49: a batch of which some fail, one is cancelled and one's job is removed by a tool ends with a count of each", async () => {
  const agent = defineAgent("mixed", ({ text }) => {
    if (text === "bad") throw Object.assign(new Error("no"), { code: "invalid_request" });
    return text;
  });
  await scene.publish(agent);
  const inputs = ["x", "bad", "x", "bad", "x", "x", "bad", "x"];
  const batch = await scene.turnq.submitMany(
    inputs.map((input, i) => ({ id: `s${i}`, input })),
    { batch: "mixed", agents: ["mixed"] },
  );
  await (await scene.turnq.turn("mixed:s4:mixed:1", { lane: "mixed" })).cancel({ reason: "not this one" });
  await (await until(() => scene.queue("mixed").getJob("mixed+s5+mixed+1"))).remove();
  await scene.worker([agent], { upkeepEveryMs: 30 });
  const ends: Record<string, number> = {};
  for await (const { status } of batch.results({ follow: true })) ends[status] = (ends[status] ?? 0) + 1;
  expect(ends).toEqual({ completed: 4, failed: 3, cancelled: 1 });
  expect(await batch.progress()).toMatchObject({
    states: { waiting: 0, running: 0, settled: 8 },
    outcomes: { ok: 4, failed: 3, cancelled: 1 },
  });
  await scene.check("mixed");
});

test("A49, D10: a batch whose counts are wrong, or whose turns were lost with their rows, still ends", async () => {
  await scene.publish(defineAgent("counted", () => "x"));
  const batch = await scene.turnq.submitMany(
    Array.from({ length: 6 }, (_, i) => ({ id: `s${i}`, input: "x" })),
    { batch: "counted", agents: ["counted"] },
  );
  const key = laneKey("counted", "batch", "counted");
  await scene.redis.hset(key, "s:waiting", 40, "o:ok", 3, "s:settled", 2, "passed", 1);
  const { log, said } = warnings();
  const { reconciler } = keep("counted", { log });
  expect(await reconciler.round()).toMatchObject({ recounted: 1 });
  await scene.check("counted");
  expect(await reconciler.round()).toMatchObject({ recounted: 0 });
  // Rows that a Redis with another policy has evicted.
  await scene.redis.del(
    laneKey("counted", "row", "counted:s3:counted:1"),
    laneKey("counted", "row", "counted:s4:counted:1"),
  );
  expect(await reconciler.round()).toMatchObject({ mended: 2, recounted: 1 });
  expect(said).toContain("turns of a batch are gone from Redis: no Result of them will come");
  expect(await batch.progress()).toMatchObject({ turns: 6, states: { waiting: 4, settled: 2 }, retired: 2 });
  await scene.worker([defineAgent("counted", () => "x")]);
  const lines = [];
  for await (const line of batch.results({ follow: true })) lines.push(line.sample);
  expect(lines.toSorted()).toEqual(["s0", "s1", "s2", "s5"]);
});

test("a batch that is busy is not corrected wrongly: a change while it is counted leaves it for the next round", async () => {
  await scene.publish(defineAgent("busy", () => "x"));
  await scene.turnq.submitMany(
    [
      { id: "a", input: "x" },
      { id: "b", input: "x" },
    ],
    { batch: "busy", agents: ["busy"] },
  );
  await scene.redis.hset(laneKey("busy", "batch", "busy"), "s:waiting", 9);
  const { reconciler, upkeep, lane } = keep("busy");
  let disturbed = false;
  const disturbing = new Proxy(upkeep, {
    get:
      (target, name) =>
      async (...args: unknown[]) => {
        if (name === "recount" && !disturbed) {
          disturbed = true;
          await cancelTurn(lane.ledger, "busy:a:busy:1");
        }
        return Reflect.get(target, name).apply(target, args);
      },
  });
  expect(await keep("busy", { upkeep: disturbing }).reconciler.round()).toMatchObject({ recounted: 0 });
  await scene.redis.del(laneKey("busy", "guard"));
  expect(await reconciler.round()).toMatchObject({ recounted: 1 });
  await scene.check("busy");
});

test("a turn that expires is settled also where no worker meets it", async () => {
  await scene.publish(defineAgent("nobody", () => "x"));
  const turn = await scene.turnq.submit({ agent: "nobody", input: "x", id: "t1", expiresInMs: 1 });
  const { reconciler } = keep("nobody");
  await until(async () => (await scene.ledger("nobody").expired(10)).length === 1);
  expect(await reconciler.round()).toMatchObject({ expired: 1 });
  expect(await turn.result({ waitMs: 1000 })).toMatchObject({ status: "expired", ok: false });
  await scene.check("nobody");
});

test("one worker looks after a lane at a time; when it closes the next one does", async () => {
  await scene.publish(defineAgent("one", () => "x"));
  const [a, b] = [keep("one"), keep("one")];
  expect((await a.reconciler.round()).claimed).toBe(true);
  expect((await b.reconciler.round()).claimed).toBe(false);
  await a.reconciler.stop();
  expect((await b.reconciler.round()).claimed).toBe(true);
});

test("invariant 12: BullMQ's event stream stays bounded, whatever another tool has set", async () => {
  await scene.publish(defineAgent("stream", () => "x"));
  const queue = scene.queue("stream");
  await queue.waitUntilReady();
  const pipeline = scene.redis.pipeline();
  for (let i = 0; i < 5000; i++) pipeline.xadd(scene.bull("stream", "events"), "*", "event", "progress", "n", i);
  await pipeline.exec();
  await keep("stream").reconciler.round();
  // Redis trims whole nodes of the stream, of 100 entries each.
  expect(await scene.redis.xlen(scene.bull("stream", "events"))).toBeLessThanOrEqual(EVENTS_MAX + 100);
});

test("D11: a lane's limit outlives an obliterate", async () => {
  await scene.worker([defineAgent("limited", () => "x")], { upkeepEveryMs: 30, laneConcurrency: { limited: 3 } });
  const queue = scene.queue("limited");
  expect(await queue.getGlobalConcurrency()).toBe(3);
  await queue.obliterate({ force: true });
  await until(async () => (await queue.getGlobalConcurrency()) === 3, "the limit");
});
