import { readFileSync } from "node:fs";
import { Worker, type Queue } from "bullmq";
import { afterAll, beforeAll, expect, test } from "vitest";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { throwAwayRedis, type ThrowAwayRedis } from "../../redis.ts";
import { Gate, Scene, until } from "../queue/scene.ts";

/** What docs/bullmq-tools.md says, tried with BullMQ's own Queue, opened by name and prefix alone. */

let redis: ThrowAwayRedis;
let scene: Scene;

beforeAll(async () => {
  redis = await throwAwayRedis({ appendfsync: "no" });
  scene = await Scene.open(redis.url);
});
afterAll(async () => {
  await scene.close();
  await redis.stop();
});

/** A lane of its own for a test: an agent that answers with what it was asked, once the gate is open. */
async function lane(name: string, more: { readonly start?: boolean } = {}) {
  const gate = new Gate();
  const runs: string[] = [];
  const agent = defineAgent(name, async ({ text }) => {
    runs.push(text);
    await gate.opened;
    return text;
  });
  const work = async (): Promise<void> => void (await scene.worker([agent], { concurrency: 2, upkeepEveryMs: 50 }));
  if (more.start === false) await scene.publish(agent);
  else await work();
  const queue: Queue = scene.queue(name);
  const submit = (id: string, rest: object = {}) => scene.turnq.submit({ agent: name, input: id, id, ...rest });
  return { queue, gate, runs, work, submit };
}

test("retry opens a generation: the turn runs again, and its first Result stays readable", async () => {
  const { queue, gate, runs, submit } = await lane("retry");
  gate.open();
  const turn = await submit("t1");
  await turn.result({ waitMs: 20_000 });
  await scene.told("retry", "t1");
  await (await queue.getJob("t1"))?.retry("completed");
  const second = await until(async () => {
    const found = await turn.result({ waitMs: 20_000 });
    return found.generation === 2 ? found : undefined;
  });
  expect(second).toMatchObject({ ok: true, output: "t1" });
  expect(runs).toEqual(["t1", "t1"]);
  const [first] = await scene.ledger("retry").results([{ turn: "t1", generation: 1 }]);
  expect(first).toMatchObject({ generation: 1, output: "t1" });
});

test("remove of a job that runs is refused; of one that is settled it takes nothing of the turn away", async () => {
  const { queue, gate, runs, submit } = await lane("remove");
  const turn = await submit("t1");
  await until(() => runs.length === 1);
  await expect(queue.remove("t1")).resolves.toBe(0);
  await expect((await queue.getJob("t1"))?.remove()).rejects.toThrow(/locked/);
  gate.open();
  const result = await turn.result({ waitMs: 20_000 });
  await scene.told("remove", "t1");
  await (await queue.getJob("t1"))?.remove();
  const again = await scene.turnq.turn("t1", { lane: "remove" });
  expect(await again.result()).toEqual(result);
  expect((await submit("t1")).duplicate).toBe(true);
  expect(runs).toEqual(["t1"]);
});

test("a job that is removed before its turn ran comes back", async () => {
  const { queue, gate, runs, submit, work } = await lane("back", { start: false });
  gate.open();
  const turn = await submit("t1");
  await (await queue.getJob("t1"))?.remove();
  expect(await queue.getJob("t1")).toBeUndefined();
  await work();
  expect(await turn.result({ waitMs: 20_000 })).toMatchObject({ ok: true });
  expect(runs).toEqual(["t1"]);
});

test("pause: no turn starts until resume, what runs goes on, and what is submitted is kept", async () => {
  const { queue, gate, runs, submit } = await lane("pause");
  const first = await submit("t1");
  await until(() => runs.length === 1);
  await queue.pause();
  gate.open();
  await first.result({ waitMs: 20_000 });
  const second = await submit("t2");
  // Were it not paused, the worker would have it long before the round trips of these.
  for (let n = 0; n < 50; n += 1) await queue.getJobCounts();
  expect(runs).toEqual(["t1"]);
  await queue.resume();
  expect(await second.result({ waitMs: 20_000 })).toMatchObject({ ok: true });
});

test("A38: a retry while the queue is paused runs after resume", async () => {
  const { queue, gate, runs, submit } = await lane("paused-retry");
  gate.open();
  const turn = await submit("t1");
  await turn.result({ waitMs: 20_000 });
  await scene.told("paused-retry", "t1");
  await queue.pause();
  await (await queue.getJob("t1"))?.retry("completed");
  await queue.resume();
  await until(() => runs.length === 2);
  expect(runs).toEqual(["t1", "t1"]);
});

test("a job that was added by hand stands for no turn: it ends at once as a stray, and runs nothing", async () => {
  const { queue, runs } = await lane("added");
  await queue.add("added", { turn: "made-up", agent: "added", input: "do it" }, { jobId: "made-up" });
  await scene.told("added", "made-up");
  expect((await queue.getJob("made-up"))?.returnvalue).toMatchObject({ stray: true });
  expect(runs).toEqual([]);
});

test("a changed priority or delay changes when the turn starts, and nothing else; promote starts none before its instant", async () => {
  const { queue, gate, runs, submit, work } = await lane("order", { start: false });
  for (const id of ["a", "b"]) await submit(id, { priority: 5 });
  const late = await submit("late", { delayMs: 3_600_000 });
  await (await queue.getJob("b"))?.changePriority({ priority: 1 });
  await (await queue.getJob("late"))?.promote();
  gate.open();
  await work();
  await Promise.all(
    ["a", "b"].map(async (id) => (await scene.turnq.turn(id, { lane: "order" })).result({ waitMs: 20_000 })),
  );
  expect(runs).toEqual(["b", "a"]);
  await until(async () => (await (await queue.getJob("late"))?.getState()) === "delayed");
  expect(late.duplicate).toBe(false);
});

test("changeDelay makes a turn wait longer, and starts none before its instant", async () => {
  const { queue, gate, runs, submit, work } = await lane("delay", { start: false });
  gate.open();
  const soon = await submit("soon", { delayMs: 300 });
  await submit("longer", { delayMs: 1 });
  await submit("late", { delayMs: 3_600_000 });
  await (await queue.getJob("soon"))?.changeDelay(0);
  await (await queue.getJob("late"))?.changeDelay(0);
  await (await queue.getJob("longer"))?.changeDelay(3_600_000);
  await work();
  const result = await soon.result({ waitMs: 20_000 });
  expect(result.queuedMs).toBeGreaterThanOrEqual(0);
  expect(runs).toEqual(["soon"]);
  await until(async () => (await (await queue.getJob("late"))?.getState()) === "delayed");
  expect(await (await queue.getJob("longer"))?.getState()).toBe("delayed");
});

test("rateLimit holds the lane for so long, and then goes on", async () => {
  const { queue, gate, runs, submit } = await lane("limited");
  gate.open();
  await queue.rateLimit(3_600_000);
  const turn = await submit("t1");
  for (let n = 0; n < 50; n += 1) await queue.getJobCounts();
  expect(runs).toEqual([]);
  await queue.rateLimit(1);
  expect(await turn.result({ waitMs: 20_000 })).toMatchObject({ ok: true });
});

test("a worker of another kind that finishes a job without running its turn makes the turn late, not lost", async () => {
  const { queue, gate, runs, submit, work } = await lane("foreign", { start: false });
  gate.open();
  const turn = await submit("t1");
  const foreign = new Worker("foreign", () => Promise.resolve("mine"), {
    connection: { url: redis.url },
    prefix: "{turnq:foreign}",
  });
  await scene.told("foreign", "t1");
  await foreign.close();
  expect((await queue.getJob("t1"))?.returnvalue).toBe("mine");
  await work();
  expect(await turn.result({ waitMs: 20_000 })).toMatchObject({ ok: true, output: "t1" });
  expect(runs).toEqual(["t1"]);
});

test("the page names each of BullMQ's calls that change a queue or a job", () => {
  const page = readFileSync("docs/bullmq-tools.md", "utf8");
  const calls = [
    "retry",
    "remove",
    "clean",
    "drain",
    "obliterate",
    "pause",
    "promote",
    "changePriority",
    "changeDelay",
  ];
  const others = ["updateData", "add", "setGlobalConcurrency", "rateLimit", "trimEvents", "moveToFailed", "log"];
  expect([...calls, ...others].filter((call) => !page.includes(`\`${call}\``))).toEqual([]);
});
