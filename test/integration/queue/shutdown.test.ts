import { jobId } from "../../../src/ledger/keys.ts";
import { afterAll, beforeAll, expect, test } from "vitest";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { scriptedAgent } from "../../../src/agents/scripted/scripted-agent.ts";
import { startRedisServer } from "../../../src/redis/server.ts";
import { redisBinary, throwAwayRedis, throwAwaySingle, type ThrowAwayRedis } from "../../redis.ts";
import { isProcessAlive } from "../../agents.ts";
import type { ClosePhase } from "../../../src/queue/worker.ts";
import { Gate, Scene, until, workerProcess } from "./scene.ts";

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

test("A04: a worker whose agent never ends closes within its limit, hands the turn back unspent, and another one runs it", async () => {
  let runs = 0;
  const agent = defineAgent("never", async ({ attempt, emit }) => {
    runs += 1;
    emit.usage({ inputTokens: 9 });
    if (attempt === 1) await new Promise<never>(() => undefined);
    return "second";
  });
  const first = await scene.worker([agent], { id: "first" });
  const turn = await scene.turnq.submit({
    agent: "never",
    input: "x",
    batch: { id: "nb", sample: "1", epoch: 1 },
    limits: { graceMs: 50 },
    retry: { maxAttempts: 1 },
  });
  await until(() => runs === 1);
  expect(await first.close(20_000)).toEqual({ complete: true, abandoned: 0, turns: [] });
  const facts = await scene.ledger("never").facts(turn.id);
  expect(facts).toMatchObject({
    spent: 0,
    crashes: 0,
    attempts: [{ attempt: 1, status: "interrupted", worker: "first", usage: { inputTokens: 9 } }],
  });
  expect(await scene.ledger("never").row(turn.id)).toMatchObject({ state: "waiting" });
  expect(await scene.redis.lrange(scene.bull("never", "wait"), 0, -1)).toEqual([jobId(turn.id)]);
  await scene.check("never");
  await scene.worker([agent], { id: "second" });
  const result = await turn.result({ waitMs: 20_000 });
  // Invariant 3: what the interrupted attempt spent is in the sum.
  expect(result).toMatchObject({
    ok: true,
    output: "second",
    usage: { inputTokens: 18 },
    wastedUsage: { inputTokens: 9 },
  });
  expect(result.attempts.map(({ status }) => status)).toEqual(["interrupted", "completed"]);
  await scene.check("never");
});

test("an agent that heeds shouldStop ends within its grace; A07: one that is done in the meantime is settled, not run again", async () => {
  const started = [new Gate(), new Gate()];
  const finish = new Gate();
  const agent = defineAgent("drain", async ({ text, shouldStop }) => {
    started[text === "polite" ? 0 : 1]?.open();
    if (text === "polite") {
      await until(() => shouldStop());
      return "cut short";
    }
    await finish.opened;
    return "whole";
  });
  const worker = await scene.worker([agent]);
  const polite = await scene.turnq.submit({
    agent: "drain",
    input: "polite",
    id: "polite",
    limits: { graceMs: 30_000 },
  });
  const deaf = await scene.turnq.submit({ agent: "drain", input: "deaf", id: "deaf", limits: { graceMs: 30_000 } });
  await Promise.all(started.map((gate) => gate.opened));
  const closing = worker.close(30_000);
  await until(async () => (await scene.ledger("drain").row("polite"))?.state === "waiting");
  finish.open();
  expect(await closing).toEqual({ complete: true, abandoned: 0, turns: [] });
  expect(await deaf.result({ waitMs: 1000 })).toMatchObject({
    ok: true,
    output: "whole",
    attempts: [{ status: "completed" }],
  });
  expect(await scene.told("drain", "deaf")).toBe("completed");
  expect((await scene.ledger("drain").facts(polite.id)).attempts).toMatchObject([{ status: "interrupted" }]);
  await scene.check("drain");
});

test("A08: workers that start and stop all the time lose no turn, and each runs once", async () => {
  const runs = new Map<string, number>();
  const agent = defineAgent("churn", ({ text }) => {
    runs.set(text, (runs.get(text) ?? 0) + 1);
    return text;
  });
  await scene.publish(agent);
  const turns = [];
  for (let round = 0; round < 15; round++) {
    const worker = await scene.worker([agent], { concurrency: 3 });
    for (let i = 0; i < 6; i++) turns.push(await scene.turnq.submit({ agent: "churn", input: `${round}.${i}` }));
    expect(await worker.close(20_000)).toEqual({ complete: true, abandoned: 0, turns: [] });
    expect(await scene.redis.llen(scene.bull("churn", "active"))).toBe(0);
  }
  await scene.worker([agent]);
  const results = await Promise.all(turns.map((turn) => turn.result({ waitMs: 20_000 })));
  expect(results.every(({ ok, attempts }) => ok && attempts.length === 1)).toBe(true);
  expect([...runs.values()].filter((count) => count !== 1)).toEqual([]);
  await scene.check("churn");
});

test("the phases of a shutdown are visible: rows say stopping, who closes hears of stopping and killed; a turn goes back ahead of its own priority", async () => {
  const started = new Gate();
  const agent = defineAgent("phases", async ({ text }) => {
    if (text !== "first") return text;
    started.open();
    await new Promise<never>(() => undefined);
    return "";
  });
  await scene.publish(agent);
  const submit = (id: string, priority: number) =>
    scene.turnq.submit({ agent: "phases", id, input: id, priority, limits: { graceMs: 60_000 } });
  await submit("first", 5);
  const { worker } = await scene.worker([agent], { concurrency: 1 });
  await started.opened;
  for (const [id, priority] of [
    ["equal", 5],
    ["urgent", 1],
    ["later", 9],
  ] as const)
    await submit(id, priority);
  const phases: ClosePhase[] = [];
  const closing = worker.close({ limitMs: 4000, onPhase: (phase) => phases.push(phase) });
  await until(async () => (await scene.ledger("phases").row("first"))?.state === "stopping");
  await scene.check("phases");
  expect(await closing).toEqual({ complete: true, abandoned: 0, turns: [] });
  expect(phases).toEqual([
    { phase: "stopping", running: 1 },
    { phase: "killed", running: 1 },
  ]);
  expect(await scene.ledger("phases").row("first")).toMatchObject({ state: "waiting", cancel: undefined });
  expect(await scene.redis.zrange(scene.bull("phases", "prioritized"), "0", "-1")).toEqual([
    "urgent",
    "first",
    "equal",
    "later",
  ]);
  await scene.check("phases");
});

test("close and start may be called at any time, in any number", async () => {
  const agent = defineAgent("twice", () => "x");
  await scene.publish(agent);
  const handle = scene.turnq.worker({ agents: [agent] });
  const [one, two] = await Promise.all([handle.start(), handle.start()]);
  expect([one, two]).toEqual([undefined, undefined]);
  const reports = await Promise.all([handle.close(), handle.close()]);
  expect(reports[0]).toBe(reports[1]);
  await expect(handle.start()).rejects.toMatchObject({ code: "closed" });
  expect(await scene.turnq.worker({ agents: [agent] }).close()).toEqual({ complete: true, abandoned: 0, turns: [] });
});

test("A05: a worker that is closed while Redis is down ends within its limit, its process ends by itself, and the turn is run elsewhere", async () => {
  // One server: what is killed has the lane.
  const own = await throwAwaySingle();
  const around = await Scene.open(own.url);
  let second: ThrowAwayRedis | undefined;
  try {
    const child = await workerProcess(own.url, "away", { closeLimitMs: 1500 });
    const turn = await around.turnq.submit({
      agent: "away",
      input: "x",
      id: "t1",
      options: {
        script: { "1": [{ say: "half" }, { poll: true, every: 10 }, { hang: true }], "*": [{ say: "whole" }] },
      },
      limits: { graceMs: 100 },
    });
    await until(async () => (await around.ledger("away").row("t1"))?.state === "running");
    process.kill(own.pid, "SIGKILL");
    await own.exited;
    const reported = new Promise<unknown>((resolve) => child.child.once("message", resolve));
    child.child.send("close");
    // It names what it could not hand back.
    expect(await reported).toEqual({ complete: false, abandoned: 1, turns: ["t1"] });
    expect(await child.ended).toBe(0);

    expect(isProcessAlive(child.pid)).toBe(false);

    const { url, ...again } = await startRedisServer({ binary: redisBinary(), dir: own.dir, port: own.port });
    second = { ...own, ...again, url };
    await around.worker([scriptedAgent("away")], { leases: { leaseMs: 200, renewEveryMs: 50, maxGapMs: 60_000 } });
    await until(async () => (await around.redis.ping().catch(() => "")) === "PONG");
    await around.stall("away", "t1");
    const result = await turn.result({ waitMs: 30_000 });
    expect(result).toMatchObject({ ok: true, output: "whole" });
    expect(["lost", "interrupted"]).toContain(result.attempts[0]?.status);
  } finally {
    await around.close();
    await second?.stop();
    await own.stop();
  }
});
