import { expect, test } from "vitest";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { openRedisProxy } from "../../redis-proxy.ts";
import { throwAwayRedis } from "../../redis.ts";
import { Gate, QUICK, Scene, until } from "../queue/scene.ts";

/** One server, seen by a scene that can be cut off from it and by one that cannot. */
async function cutScenes(onTestFinished: (end: () => Promise<void>) => void) {
  const server = await throwAwayRedis({ appendfsync: "no" });
  const proxy = await openRedisProxy(server.port);
  const near = await Scene.open(server.url);
  const far = await Scene.open(proxy.url);
  onTestFinished(async () => {
    proxy.hold(false);
    await far.close();
    await near.close();
    await proxy.close();
    await server.stop();
  });
  return { proxy, near, far };
}

test("invariants 4 and 11, D04: a worker that is cut off alone for longer than its lease is taken over: its output is refused, its spend booked, and then it works on", async ({
  onTestFinished,
}) => {
  const { proxy, near, far } = await cutScenes(onTestFinished);
  const [cut, spent] = [new Gate(), new Gate()];
  const ended: string[] = [];
  const agent = defineAgent("alone", async ({ turn, attempt, emit, signal }) => {
    await emit.call();
    emit.usage({ inputTokens: 10 * attempt });
    if (attempt === 1 && turn === "t1") {
      await cut.opened;
      // Nobody can tell it yet that it has been taken over.
      emit.usage({ inputTokens: 1000 });
      spent.open();
      await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
      ended.push("stopped");
    }
    return `of attempt ${attempt}`;
  });
  // One slot each: a turn that kept the slot of the first would be seen.
  const first = await far.worker([agent], { id: "first", concurrency: 1, leases: QUICK });
  const turn = await near.turnq.submit({ agent: "alone", input: "x", id: "t1", retry: { backoff: { delayMs: 1 } } });
  await until(
    async () => (await near.ledger("alone").events("t1", 1, 0))?.events.some(({ type }) => type === "usage"),
    "the flush of the usage",
  );
  proxy.hold(true);
  cut.open();
  await spent.opened;
  const second = await near.worker([agent], { id: "second", concurrency: 1, leases: QUICK });
  await near.stall("alone", "t1");
  const result = await turn.result({ waitMs: 30_000 });
  expect(result).toMatchObject({ ok: true, output: "of attempt 2", usage: { inputTokens: 30 } });
  expect(result.attempts.map(({ status, worker }) => [status, worker])).toEqual([
    ["lost", "first"],
    ["completed", "second"],
  ]);
  expect(ended).toEqual([]);

  proxy.hold(false);
  await until(() => ended.length > 0, "the stop of what was taken over");
  const late = await until(async () => (await near.ledger("alone").facts("t1")).attempts[0]?.late, "its late spend");
  expect(late).toMatchObject({ inputTokens: 1000 });
  expect(await turn.result()).toEqual(result);
  await second.close();
  const next = await near.turnq.submit({ agent: "alone", input: "x", id: "t2" });
  expect(await next.result({ waitMs: 30_000 })).toMatchObject({ ok: true, attempts: [{ worker: "first" }] });
  for (const id of ["t1", "t2"]) await near.told("alone", id);
  expect(first.worker.running).toBe(0);
  await near.check("alone");
});

test("U02: a turn that is cancelled while its worker is cut off: its Result says that its usage is a floor, and what was spent beyond it is booked", async ({
  onTestFinished,
}) => {
  const { proxy, near, far } = await cutScenes(onTestFinished);
  const [cut, spent] = [new Gate(), new Gate()];
  const agent = defineAgent("floor", async ({ emit, signal }) => {
    void emit.call();
    emit.usage({ inputTokens: 10 });
    await cut.opened;
    emit.usage({ inputTokens: 3 });
    spent.open();
    await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
    emit.usage({ inputTokens: 4 });
    return "too late";
  });
  await far.worker([agent], { id: "far", leases: QUICK });
  const turn = await near.turnq.submit({ agent: "floor", input: "x", id: "t1" });
  await until(
    async () => (await near.ledger("floor").events("t1", 1, 0))?.events.some(({ type }) => type === "usage"),
    "the flush of the usage",
  );
  proxy.hold(true);
  cut.open();
  await spent.opened;
  // Another worker renews the lane: it is the one that is cut off which is missing, and not Redis.
  await near.worker([agent], { id: "near", leases: QUICK });
  await until(async () => (await turn.cancel()).kind !== "requested", "the end of the lease");
  const result = await turn.result({ waitMs: 30_000 });
  expect(result).toMatchObject({
    cancelled: true,
    usage: { inputTokens: 10, known: "partial" },
    attempts: [{ status: "lost", worker: "far" }],
  });
  proxy.hold(false);
  const late = await until(
    async () => (await turn.attempts()).map((attempt) => attempt.late).find((found) => found?.inputTokens === 7),
    "what it spent beyond",
  );
  expect(late).toMatchObject({ inputTokens: 7 });
  expect(await turn.result()).toEqual(result);
  await near.told("floor", "t1");
  await near.check("floor");
});
