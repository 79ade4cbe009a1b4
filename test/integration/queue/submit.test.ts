import { afterAll, beforeAll, expect, test } from "vitest";
import { openTurnq } from "../../../src/app.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import type { TurnRequest } from "../../../src/domain/turn-request.ts";
import { laneKey } from "../../../src/ledger/keys.ts";
import { throwAwayRedis, type ThrowAwayRedis } from "../../redis.ts";
import { Scene } from "./scene.ts";

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

test("a turn goes from submit to its Result", async () => {
  const upper = defineAgent("upper", ({ text }) => text.toUpperCase());
  const turnq = await openTurnq({ redis: server.url, agents: [upper] });
  const worker = turnq.worker({ concurrency: 4 });
  await worker.start();
  const turn = await turnq.submit({ agent: "upper", input: "hello", target: "HELLO", expect: [{ type: "equals" }] });
  expect(turn).toMatchObject({ lane: "upper", duplicate: false });
  expect(await turn.result({ waitMs: 20_000 })).toMatchObject({
    ok: true,
    output: "HELLO",
    status: "completed",
    generation: 1,
    score: { passed: true },
  });
  await turnq.close();
});

test("A22: a submit with a known id is told what is there: a duplicate by the same content, an error by other content, which names the fields and no prompt", async () => {
  await scene.publish(defineAgent("known", () => "x"));
  const turn = await scene.turnq.submit({
    agent: "known",
    input: "the first",
    id: "9001",
    limits: { timeoutMs: 1000 },
  });
  expect(turn.duplicate).toBe(false);
  const again = await scene.turnq.submit({ agent: "known", input: "the first", id: "9001", limits: { timeoutMs: 5 } });
  expect([again.id, again.duplicate]).toEqual(["9001", true]);
  const refused = scene.turnq.submit({ agent: "known", input: "a secret prompt", id: "9001", options: { a: 1 } });
  await expect(refused).rejects.toMatchObject({
    code: "id_conflict",
    details: { turn: "9001", fields: ["input", "options"] },
  });
  await expect(refused).rejects.not.toThrow(/secret|the first/);
  expect(await scene.ledger("known").request("9001")).toMatchObject({
    input: "the first",
    limits: { timeoutMs: 1000 },
  });
  expect(await scene.queue("known").getJobCounts("wait")).toEqual({ wait: 1 });
  await scene.check("known");
});

test("A22: a duplicate of a turn whose job is missing gets it back", async () => {
  const agent = defineAgent("missing", () => "x");
  await scene.publish(agent);
  await scene.turnq.submit({ agent: "missing", input: "x", id: "t1" });
  await (await scene.queue("missing").getJob("t1"))?.remove();
  const turn = await scene.turnq.submit({ agent: "missing", input: "x", id: "t1" });
  expect(turn.duplicate).toBe(true);
  await scene.worker([agent]);
  expect(await turn.result({ waitMs: 20_000 })).toMatchObject({ ok: true });
});

test("D13: a batch that is submitted again completes itself: no cell twice; a conflict names the sample", async () => {
  const agent = defineAgent("cells", ({ text }) => text);
  await scene.publish(agent);
  const items = (from: number, to: number) =>
    Array.from({ length: to - from }, (_, i) => ({ input: `in ${from + i}`, id: `s${from + i}` }));
  await scene.turnq.submitMany(items(0, 130), { batch: "db", agents: ["cells"], epochs: 2 });
  const batch = await scene.turnq.submitMany(items(0, 150), { batch: "db", agents: ["cells"], epochs: 2 });
  expect(await batch.progress()).toMatchObject({ turns: 300, states: { waiting: 300 } });
  await expect(
    scene.turnq.submitMany([{ input: "changed", id: "s7" }], { batch: "db", agents: ["cells"] }),
  ).rejects.toMatchObject({ code: "id_conflict", where: "batch db, sample s7" });
  await scene.worker([agent], { concurrency: 20 });
  const seen = new Map<string, number>();
  for await (const line of batch.results({ follow: true }))
    seen.set(`${line.sample} ${line.epoch}`, (seen.get(`${line.sample} ${line.epoch}`) ?? 0) + 1);
  expect(seen.size).toBe(300);
  expect([...seen.values()].every((count) => count === 1)).toBe(true);
  await scene.check("cells");
});

const REFUSED: readonly (readonly [string, object, string])[] = [
  ["an empty id", { id: "" }, "invalid_request"],
  ["a number as id", { id: 123 }, "invalid_request"],
  ["an id with a space", { id: "a b" }, "invalid_request"],
  ["an id of 20 kB", { id: "x".repeat(20_000) }, "invalid_request"],
  ["an empty input (U08)", { input: " " }, "invalid_request"],
  ["an unknown key", { inptu: "x" }, "invalid_request"],
  ["NaN in options", { options: { a: Number.NaN } }, "invalid_request"],
  ["a Date in metadata", { metadata: { at: new Date(0) } }, "invalid_request"],
  ["a BigInt", { options: { a: 1n } }, "invalid_request"],
  ["a request over 8 MB", { input: "x".repeat(8 * 1024 * 1024) }, "invalid_request"],
  ["an unknown agent", { agent: "stric" }, "unknown_agent"],
  ["a limit that the agent cannot hold", { agent: "deaf", limits: { maxSteps: 3 } }, "unsupported"],
];

test.each(REFUSED)("A20, A29: %s is refused before anything is stored", async (_what, more, code) => {
  await scene.publish(
    defineAgent("strict", () => "x"),
    defineAgent("deaf", () => "x", { cooperativeStop: false }),
  );
  const request = { agent: "strict", input: "x", ...more } as TurnRequest;
  await expect(scene.turnq.submit(request)).rejects.toMatchObject({ code });
  expect(await scene.redis.keys("{turnq:str*")).toEqual([]);
  expect(await scene.redis.keys("{turnq:deaf*")).toEqual([]);
});

test("A16: a wrong entry in the middle of a batch is named with how many are stored; without it the batch completes itself", async () => {
  await scene.publish(defineAgent("bulk", () => "x"));
  const items = (wrong: unknown) =>
    Array.from({ length: 300 }, (_, i) => (i === 250 ? wrong : { id: `s${i}`, input: "x" }));
  const options = { batch: "bulk", agents: ["bulk"] };
  const stored = async (): Promise<number> =>
    (await scene.turnq.batches.list()).find(({ batch }) => batch === "bulk")?.turns ?? 0;
  for (const wrong of [{ id: "s250", input: "x", delayMs: Number.NaN }, { id: 250n, input: "x" }, { id: "s250" }]) {
    const error: unknown = await scene.turnq.submitMany(items(wrong), options).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "invalid_input", details: { stored: 250 } });
    expect(String(error)).toContain("251");
    expect(await stored()).toBe(250);
  }
  await scene.turnq.submitMany(items({ id: "s250", input: "x" }), options);
  expect(await stored()).toBe(300);
});

test("A16: an id that is taken in one lane keeps no turn of another lane from being stored", async () => {
  await scene.publish(
    defineAgent("lane-a", () => "x"),
    defineAgent("lane-b", () => "x"),
  );
  await scene.turnq.submitMany([{ id: "s1", input: "before" }], { batch: "lanes", agents: ["lane-a"] });
  const items = ["s1", "s2", "s3"].map((id) => ({ id, input: "x" }));
  await expect(scene.turnq.submitMany(items, { batch: "lanes", agents: ["lane-a", "lane-b"] })).rejects.toMatchObject({
    code: "id_conflict",
    details: { stored: 3 },
  });
  expect(await scene.redis.zcard(laneKey("lane-b", "batchTurns", "lanes"))).toBe(3);
});

test("an unknown agent's error names the known ones", async () => {
  await scene.publish(defineAgent("strict", () => "x"));
  await expect(scene.turnq.submit({ agent: "stric", input: "x" })).rejects.toThrow(/unknown agent "stric".*strict/);
});
