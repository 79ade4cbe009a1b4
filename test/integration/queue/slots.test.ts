import { afterAll, beforeAll, expect, test } from "vitest";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { throwAwayRedis, type ThrowAwayRedis } from "../../redis.ts";
import { Gate, Scene } from "./scene.ts";

let server: ThrowAwayRedis;
let scene: Scene;
beforeAll(async () => {
  server = await throwAwayRedis({ appendfsync: "no" });
  scene = await Scene.open(server.url);
});
afterAll(async () => {
  await scene.close();
  await server.stop();
});

/** Jobs of a lane that some worker has fetched. */
function active(lane: string): Promise<number> {
  return scene.redis.llen(scene.bull(lane, "active"));
}

test("a worker whose slots are taken by one lane fetches nothing of another: a worker that has a slot runs it", async () => {
  const [started, go] = [new Gate(), new Gate()];
  const long = defineAgent("long", async () => {
    started.open();
    await go.opened;
    return "long";
  });
  const other = defineAgent("other", () => "by the full one");
  const full = await scene.worker([long, other], { concurrency: 1 });
  const first = await scene.turnq.submit({ agent: "long", input: "x" });
  await started.opened;
  const turns = await Promise.all([1, 2, 3].map((i) => scene.turnq.submit({ agent: "other", input: String(i) })));
  const elsewhere = await scene.worker([defineAgent("other", () => "elsewhere")], { concurrency: 1 });
  const results = await Promise.all(turns.map((turn) => turn.result({ waitMs: 20_000 })));
  expect(results.map(({ output }) => output)).toEqual(["elsewhere", "elsewhere", "elsewhere"]);
  expect(await active("other")).toBe(0);
  await elsewhere.close();
  go.open();
  expect(await first.result({ waitMs: 10_000 })).toMatchObject({ ok: true });
  // The slot came back: the lane that waited for it goes on here.
  const last = await scene.turnq.submit({ agent: "other", input: "4" });
  expect(await last.result({ waitMs: 20_000 })).toMatchObject({ output: "by the full one" });
  expect(await full.close()).toMatchObject({ complete: true });
});

test("invariant 11: three lanes share two slots, whatever becomes of their turns: never more at once, none starves, all ends", async () => {
  const [running, order] = [new Set<string>(), [] as string[]];
  let most = 0;
  const agents = ["big", "mid", "tiny"].map((name) =>
    defineAgent(name, async ({ text, attempt, turn }) => {
      running.add(turn);
      most = Math.max(most, running.size);
      await new Promise((resolve) => setImmediate(resolve));
      running.delete(turn);
      if (text === "crash" && attempt === 1) throw new Error("boom");
      order.push(name);
      return name;
    }),
  );
  await scene.publish(...agents);
  const submit = (agent: string, count: number) =>
    Array.from({ length: count }, (_, i) =>
      scene.turnq.submit({
        agent,
        input: i % 5 === 4 ? "crash" : "fine",
        retry: { backoff: { delayMs: 1, jitter: 0 } },
      }),
    );
  const turns = await Promise.all([...submit("big", 60), ...submit("mid", 20), ...submit("tiny", 4)]);
  const worker = await scene.worker(agents, { concurrency: 2 });
  const results = await Promise.all(turns.map((turn) => turn.result({ waitMs: 30_000 })));
  expect(results.every(({ ok }) => ok)).toBe(true);
  expect(most).toBe(2);
  expect(order.lastIndexOf("tiny")).toBeLessThan(order.length / 2);
  expect(await worker.close()).toEqual({ complete: true, abandoned: 0, turns: [] });
  for (const { name } of agents) {
    expect(await active(name)).toBe(0);
    await scene.check(name);
  }
});

test("a worker of several lanes that waits for a slot is closed at once", async () => {
  const started = new Gate();
  const hang = defineAgent("hang", async ({ shouldStop }) => {
    started.open();
    while (shouldStop() === undefined) await new Promise((resolve) => setTimeout(resolve, 5));
    return "stopped";
  });
  const idle = defineAgent("idle", () => "x");
  const worker = await scene.worker([hang, idle], { concurrency: 1 });
  await scene.turnq.submit({ agent: "hang", input: "x" });
  await started.opened;
  await scene.turnq.submit({ agent: "idle", input: "x", id: "kept" });
  expect(await worker.close(8000)).toEqual({ complete: true, abandoned: 0, turns: [] });
  expect(await scene.ledger("idle").row("kept")).toMatchObject({ state: "waiting", attempt: 0 });
});
