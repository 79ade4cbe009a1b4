import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openTurnq } from "../../../src/app.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { moduleAgent } from "../../../src/agents/module/module-agent.ts";
import { STORE_KEYS } from "../../../src/ledger/keys.ts";
import { redisNow } from "../../../src/ledger/redis-now.ts";
import { readyAgents } from "../../../src/queue/missing-agents.ts";
import { FakeClock } from "../../agents.ts";
import { throwAwayRedis, type ThrowAwayRedis } from "../../redis.ts";
import { Place } from "../agents/attempt.ts";
import { Scene, until } from "./scene.ts";

const FIXTURE = join(process.cwd(), "test/fixtures/module/scripted.mjs");

let server: ThrowAwayRedis;
let place: Place;
let scene: Scene;
beforeAll(async () => {
  server = await throwAwayRedis();
  place = new Place();
  scene = await Scene.open(server.url);
});
afterAll(async () => {
  await scene.close();
  await place.close();
  await server.stop();
});

test("U01: a module that could not be loaded is served when it can be, without a restart, and the worker says so all along", async () => {
  const clock = new FakeClock();
  const late = moduleAgent("late", { type: "module", module: "./late.mjs" }, place.deps);
  const { missing } = await readyAgents([late]);
  const here = defineAgent("here", () => "x");
  const { worker, close } = await scene.worker([here], { missing, clock });
  const problem = expect.stringContaining("./late.mjs does not exist");
  expect(worker.readiness()).toEqual({ ready: true, missing: [{ agent: "late", problem }] });
  const listed = async () => (await scene.turnq.workers.list()).map((info) => [info.agents, info.missing, info.lanes]);
  expect(await listed()).toEqual([[["here"], [{ agent: "late", problem }], ["here"]]]);
  // A producer knows it from somebody who could load it.
  await scene.publish(late);
  const turn = await scene.turnq.submit({
    agent: "late",
    lane: "late",
    input: "x",
    options: { script: [{ answer: "served" }] },
  });

  writeFileSync(join(place.folder, "late.mjs"), `export { ScriptedAgent } from ${JSON.stringify(FIXTURE)};`);
  await clock.advance(10_000);
  expect(await turn.result({ waitMs: 30_000 })).toMatchObject({ output: "served" });
  await until(() => worker.readiness().missing === undefined, "readiness without a missing agent");
  await until(async () => (await listed())[0]?.[2]?.length === 2, "the list of workers");
  expect(await listed()).toEqual([[["here", "late"], [], ["here", "late"]]]);
  await close();
  await late.close?.();
  expect(await scene.turnq.workers.list()).toEqual([]);
});

test("U01: a producer is told when no worker that is up runs the agent, in any process, and no longer than that", async () => {
  const agent = defineAgent("alone", () => "x");
  await scene.publish(agent);
  const producer = await openTurnq({ redis: server.url });
  scene.onClose(() => producer.close());
  const submit = async (id: string) => (await producer.submit({ id, agent: "alone", input: "x" })).unserved;
  expect(await submit("u1")).toMatchObject({ agent: "alone", sinceAt: expect.any(Number) });
  const batch = await producer.submitMany([{ input: "x" }], { batch: "u", agents: ["alone"] });
  expect(batch.unserved).toMatchObject([{ agent: "alone", lane: "alone" }]);

  const { close } = await scene.worker([agent]);
  await until(async () => (await submit("u2")) === undefined, "a producer that is not warned");
  expect((await producer.submitMany([{ input: "x" }], { batch: "v", agents: ["alone"] })).unserved).toEqual([]);
  // The agent is up, and in no lane but its own.
  expect((await producer.submit({ agent: "alone", lane: "elsewhere", input: "x" })).unserved).toMatchObject({
    lane: "elsewhere",
  });
  await close();
  await until(() => submit("u3"), "a producer that is warned again");

  const own = producer.worker({ agents: [agent] });
  await own.start();
  expect(await submit("u4")).toBeUndefined();
  await own.close();
});

test("U10: what nobody runs any more is known with since when, at once after a clean close, and named to nobody", async () => {
  const [gone, stays] = [defineAgent("leaver", () => "x"), defineAgent("stayer", () => "x")];
  const producer = await openTurnq({ redis: server.url });
  scene.onClose(() => producer.close());
  const before = Date.now() - 1000;
  const leaving = await scene.worker([gone, stays]);
  await scene.worker([stays]);
  await producer.refreshAgents();
  expect([producer.unservedSince("leaver"), producer.unservedSince("stayer")]).toEqual([undefined, undefined]);
  await leaving.close();
  await producer.refreshAgents();
  expect(producer.unservedSince("stayer")).toBeUndefined();
  expect(producer.unservedSince("leaver")).toBeGreaterThan(before);
  // Its turns still find their lane, and nobody is pointed to it.
  expect(producer.knownAgents().map(({ name }) => name)).toContain("leaver");
  const error: unknown = await producer.submit({ agent: "nobody", input: "x" }).catch((thrown: unknown) => thrown);
  expect(String(error)).toContain("stayer");
  expect(String(error)).not.toContain("leaver");
});

test("U10: a worker that was killed is off the list within a minute, by the clock of Redis and nobody's own", async () => {
  const agent = defineAgent("killed", () => "x");
  await scene.publish(agent);
  const now = await redisNow(scene.redis);
  const dead = { worker: "dead", agents: ["killed"], missing: [], lanes: ["killed"], concurrency: 1, running: 1 };
  const tell = (at: number) =>
    scene.redis.hset(STORE_KEYS.workers, "dead", JSON.stringify({ ...dead, closing: false, startedAt: 0, at }));
  await tell(now);
  await scene.turnq.refreshAgents();
  expect(scene.turnq.unservedSince("killed")).toBeUndefined();
  await tell(now - 20_000);
  await scene.turnq.refreshAgents();
  expect(scene.turnq.unservedSince("killed")).toEqual(expect.any(Number));
});
