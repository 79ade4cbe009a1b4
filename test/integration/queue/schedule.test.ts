import { afterAll, beforeAll, expect, test } from "vitest";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { jobId } from "../../../src/ledger/keys.ts";
import { EXPIRED, settleUnrun } from "../../../src/queue/cancel.ts";
import { throwAwayRedis, type ThrowAwayRedis } from "../../redis.ts";
import { Gate, Scene, until } from "./scene.ts";

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

test("A35: turns without a priority go first, then 1, 2, 3 …, equals in the order of submission; a session's head among them", async () => {
  const order: string[] = [];
  const agent = defineAgent("order", ({ text }) => {
    order.push(text);
    return text;
  });
  await scene.publish(agent);
  const turns = [];
  for (const [input, priority, session] of [
    ["five", 5, undefined],
    ["two", 2, undefined],
    ["none", undefined, undefined],
    ["five of a session", 5, "order"],
    ["one of a session, behind", 1, "order"],
    ["two again", 2, undefined],
    ["zero", 0, undefined],
  ] as const) {
    const more = { ...(priority === undefined ? {} : { priority }), ...(session === undefined ? {} : { session }) };
    turns.push(await scene.turnq.submit({ agent: "order", input, ...more }));
  }
  await scene.worker([agent], { concurrency: 1 });
  for (const turn of turns) await turn.result({ waitMs: 20_000 });
  expect(order).toEqual(["none", "zero", "two", "two again", "five", "five of a session", "one of a session, behind"]);
  await scene.check("order");
});

test("a turn that is handed back keeps its place: ahead of its own priority, behind what goes before it", async () => {
  const order: string[] = [];
  const started = new Gate();
  const agent = defineAgent("place", async ({ text, attempt, shouldStop }) => {
    if (text === "handed back" && attempt === 1) {
      started.open();
      await until(() => shouldStop());
    } else order.push(text);
    return text;
  });
  const first = await scene.worker([agent], { concurrency: 1 });
  const turns = [await scene.turnq.submit({ agent: "place", input: "handed back", priority: 4 })];
  await started.opened;
  turns.push(await scene.turnq.submit({ agent: "place", input: "four", priority: 4 }));
  turns.push(await scene.turnq.submit({ agent: "place", input: "three", priority: 3 }));
  await first.close(20_000);
  await scene.worker([agent], { concurrency: 1 });
  for (const turn of turns) expect(await turn.result({ waitMs: 20_000 })).toMatchObject({ ok: true });
  expect(order).toEqual(["three", "handed back", "four"]);
  await scene.check("place");
});

test("D19: a delayed turn is started once, not before its instant; in a session it holds the ones behind it", async () => {
  const starts = new Map<string, number>();
  const order: string[] = [];
  const agent = defineAgent("delay", ({ text }) => {
    order.push(text);
    starts.set(text, (starts.get(text) ?? 0) + 1);
    return text;
  });
  await scene.worker([agent], { concurrency: 4 });
  const submit = (input: string, more: object) => scene.turnq.submit({ agent: "delay", input, ...more });
  const turns = [
    await submit("head", { session: "delay", delayMs: 250 }),
    await submit("behind", { session: "delay" }),
    await submit("last", { session: "delay", delayMs: 1 }),
    await submit("alone", { delayMs: 200, priority: 3 }),
  ];
  const results = await Promise.all(turns.map((turn) => turn.result({ waitMs: 20_000 })));
  expect(results[0]?.queuedMs).toBeGreaterThanOrEqual(250);
  expect(results[3]?.queuedMs).toBeGreaterThanOrEqual(200);
  expect(order.filter((text) => text !== "alone")).toEqual(["head", "behind", "last"]);
  expect([...starts.values()]).toEqual([1, 1, 1, 1]);
  await scene.check("delay");
});

test("a delayed turn that a tool promotes too early is still not started before its instant", async () => {
  const agent = defineAgent("promoted", () => "ran");
  await scene.worker([agent]);
  const turn = await scene.turnq.submit({ agent: "promoted", input: "x", id: "t1", delayMs: 400 });
  const job = await scene.queue("promoted").getJob("t1");
  await job?.promote();
  expect((await turn.result({ waitMs: 20_000 })).queuedMs).toBeGreaterThanOrEqual(400);
  await scene.check("promoted");
});

test("an expired turn ends without a run: by the worker that meets it, or by whoever settles it where none does", async () => {
  let runs = 0;
  const agent = defineAgent("expired", () => {
    runs += 1;
    return "ran";
  });
  await scene.publish(agent);
  const submit = (id: string, more: object = {}) =>
    scene.turnq.submit({ agent: "expired", input: "x", id, expiresInMs: 1, ...more });
  const batch = { id: "exp", sample: "1", epoch: 1 };
  const [met, unmet] = [await submit("met"), await submit("", { id: undefined, batch, priority: 6, delayMs: 1 })];
  const fresh = await submit("fresh", { expiresInMs: 3_600_000 });
  const ledger = scene.ledger("expired");
  await until(async () => (await ledger.expired(10)).length === 2);
  expect(await settleUnrun(ledger, unmet.id, EXPIRED)).toBe("ended");
  expect(await settleUnrun(ledger, fresh.id, EXPIRED)).toBe("undue");
  expect(await unmet.result({ waitMs: 0 })).toMatchObject({
    ok: false,
    status: "expired",
    cancelled: false,
    error: EXPIRED.reason,
    failure: { code: "expired" },
    attempts: [],
  });
  await scene.worker([agent]);
  expect(await met.result({ waitMs: 20_000 })).toMatchObject({ status: "expired", error: EXPIRED.reason });
  expect(await fresh.result({ waitMs: 20_000 })).toMatchObject({ ok: true, output: "ran" });
  expect(await scene.told("expired", "met")).toBe("failed");
  expect(await scene.told("expired", unmet.id)).toBe("failed");
  expect(runs).toBe(1);
  // A new generation has its time anew, keeps its priority and has no delay.
  await scene.redis.hset(`{turnq:expired}/row:${unmet.id}`, "expiresInMs", 3_600_000);
  expect(await scene.turnq.batch("exp").retry()).toBe(1);
  expect(await unmet.result({ waitMs: 20_000 })).toMatchObject({ ok: true, generation: 2 });
  const job = await scene.queue("expired").getJob(jobId(unmet.id, 2));
  expect(job?.opts).toMatchObject({ priority: 6, delay: 0 });
  await scene.check("expired");
});
