import { jobId } from "../../../src/ledger/keys.ts";
import { afterEach, beforeEach, expect, test } from "vitest";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { startRedisServer, type RedisServer } from "../../../src/redis/server.ts";
import { redisBinary, throwAwayRedis, type ThrowAwayRedis } from "../../redis.ts";
import { eventsOf, Gate, inFolder, QUICK, Scene, until, workerProcess } from "./scene.ts";
import { scriptedAgent } from "../../../src/agents/scripted/scripted-agent.ts";

let server: ThrowAwayRedis;
let again: RedisServer | undefined;
let scene: Scene;
beforeEach(async () => {
  server = await throwAwayRedis({ appendfsync: "always" });
  scene = await Scene.open(server.url);
});
afterEach(async () => {
  await scene.close();
  await again?.stop();
  await server.stop();
});

async function killRedis(): Promise<void> {
  process.kill(server.pid, "SIGKILL");
  await server.exited;
}

/** Redis again, on the same folder and port; resolves when this process is connected. */
async function restartRedis(): Promise<void> {
  again = await startRedisServer({ binary: redisBinary(), dir: server.dir, port: server.port });
  await until(async () => (await scene.redis.ping().catch(() => "")) === "PONG");
}

test("invariant 2, A11: nothing accepted is lost over a kill -9 and a restart of Redis with AOF always", async () => {
  const agent = defineAgent("kept", ({ text }) => text);
  await scene.publish(agent);
  const accepted: string[] = [];
  const submitting = (async () => {
    for (let i = 0; ; i++) {
      try {
        const turn = await scene.turnq.submit({
          agent: "kept",
          input: `in ${i}`,
          id: `t${i}`,
          ...(i % 3 === 0 ? { session: `s${i % 9}` } : {}),
        });
        accepted.push(turn.id);
      } catch (error) {
        return error;
      }
    }
  })();
  await until(() => accepted.length >= 150);
  await killRedis();
  // What was not accepted is told so, and not kept in memory to be sent later.
  expect(await submitting).toMatchObject({ code: "redis_unreachable" });
  await restartRedis();
  const rows = await scene.ledger("kept").rows(accepted);
  expect(rows.filter((row) => row === undefined)).toEqual([]);
  await scene.worker([agent], { concurrency: 20 });
  for (const id of accepted) {
    const result = await until(() => scene.ledger("kept").result(id, 1), `the Result of ${id}`);
    expect(result).toMatchObject({ ok: true, output: `in ${id.slice(1)}`, attempts: [{ attempt: 1 }] });
  }
  await until(async () => (await scene.redis.zcard(scene.bull("kept", "completed"))) >= accepted.length);
  await scene.check("kept");
});

test("invariant 10, A55: Redis is down in mid-turn for longer than BullMQ's lock and the lease: one run, one Result", async () => {
  let runs = 0;
  const done = new Gate();
  const agent = defineAgent("outage", async ({ text, emit }) => {
    runs += 1;
    emit.text(`${text} `);
    void emit.call();
    if (text === "long") await done.opened;
    return undefined;
  });
  // The lease and the gap are shorter than the outage, as they are in earnest for one of 20 s; BullMQ's lock of 8 s is real.
  const leases = { leaseMs: 1500, renewEveryMs: 200, maxGapMs: 1000, graceMs: 10_000 };
  const worker = await scene.worker([agent], { leases });
  const rival = await scene.worker([agent], { leases });
  const long = await scene.turnq.submit({ agent: "outage", input: "long", id: "long" });
  await until(async () => (await scene.ledger("outage").events("long", 1, 0))?.events.length);
  await killRedis();
  // Whoever listens goes on when Redis is back.
  const heard = eventsOf(long);
  for (const call of [() => long.result({ waitMs: 100 }), () => long.row()]) {
    await expect(call()).rejects.toMatchObject({ name: "TurnqError", code: "redis_unreachable" });
  }
  // This one ends while Redis is away: its settle is repeated until it is answered.
  const downAt = Date.now();
  await until(() => Date.now() - downAt > 9000);
  done.open();
  await restartRedis();
  const result = await long.result({ waitMs: 30_000 });
  expect(result).toMatchObject({ ok: true, attempts: [{ attempt: 1, status: "completed" }] });
  expect(await scene.told("outage", "long")).toBe("completed");
  expect((await heard).at(-1)).toMatchObject({ type: "turn_completed" });
  const after = await scene.turnq.submit({ agent: "outage", input: "after", id: "after" });
  expect(await after.result({ waitMs: 30_000 })).toMatchObject({ ok: true });
  expect(runs).toBe(2);
  expect([worker.worker.running, rival.worker.running]).toEqual([0, 0]);
  await scene.check("outage");
});

test("A02, C51, D04, invariants 3, 4, 6 and 8: workers that are killed or frozen in mid-turn: the next attempt, elsewhere, sees the snapshot; spend is conserved", async () => {
  await inFolder(async (folder) => {
    const agent = scriptedAgent("killed");
    const log = join(folder, "runs");
    const cold = scriptedAgent("frozen");
    await scene.publish(agent, cold);
    const script = {
      "1": [
        { append: log, line: "{turn} {attempt} {history}" },
        { call: true },
        { usage: { inputTokens: 10, costUsd: 0.5 } },
        { tool: "t", open: true },
        { call: true },
        { say: "of attempt {attempt}" },
        { waitFor: join(folder, "never") },
      ],
      "2": [
        { append: log, line: "{turn} {attempt} {history}" },
        { call: true },
        { usage: { inputTokens: 100 } },
        { crash: "boom" },
      ],
      "*": [
        { append: log, line: "{turn} {attempt} {history}" },
        { call: true },
        { usage: { inputTokens: 1000 } },
        { say: "{iteration} after {history}" },
      ],
    };
    const first = await scene.turnq.submit({
      agent: "killed",
      input: "one",
      id: "first",
      session: "s",
      options: { script: [{ call: true }, { usage: { inputTokens: 1 } }, { say: "begun" }] },
    });
    const [child, frozen] = await Promise.all([workerProcess(scene.url, "killed"), workerProcess(scene.url, "frozen")]);
    expect(await first.result({ waitMs: 20_000 })).toMatchObject({ output: "begun", iteration: 1 });
    const batch = (sample: string) => ({
      batch: { id: "kb", sample, epoch: 1 },
      options: { script },
      retry: { backoff: { delayMs: 5 } },
    });
    const turn = await scene.turnq.submit({ agent: "killed", input: "two", session: "s", ...batch("1") });
    const alone = await scene.turnq.submit({ agent: "killed", input: "alone", ...batch("2") });
    for (const id of [turn.id, alone.id])
      await until(
        async () =>
          (await scene.ledger("killed").events(id, 1, 0))?.events.filter(({ type }) => type === "call_start").length ===
          2,
        "the second call of the attempt",
      );
    const opened = await scene.ledger("killed").opened(turn.id, 1);
    const thawed = join(folder, "thawed");
    const slow = {
      "1": [
        { call: true },
        { usage: { inputTokens: 10 } },
        { waitFor: thawed },
        { call: true },
        { usage: { inputTokens: 1000 } },
        { say: "late" },
      ],
      "*": [{ call: true }, { usage: { inputTokens: 100 } }, { say: "in time" }],
    };
    const chilled = await scene.turnq.submit({
      agent: "frozen",
      input: "x",
      id: "f1",
      options: { script: slow },
      retry: { backoff: { delayMs: 5 } },
    });
    await until(
      async () => (await scene.ledger("frozen").events("f1", 1, 0))?.events.some(({ type }) => type === "usage"),
      "the usage of the attempt that is to freeze",
    );

    frozen.kill("SIGSTOP");
    child.kill("SIGKILL");
    expect(await child.ended).toBe("SIGKILL");
    await scene.worker([agent, cold], { id: "survivor" });
    const progress = await until(async () => {
      const at = await scene.turnq.batch("kb").progress();
      return at.overdue > 0 || at.states.running === 0 ? at : undefined;
    });
    expect(progress.turns).toBe(2);
    const results = await Promise.all([turn, alone].map((handle) => handle.result({ waitMs: 40_000 })));

    for (const result of results) {
      expect(result.attempts.map(({ status, worker }) => [status, worker])).toEqual([
        ["lost", opened?.worker],
        ["crashed", "survivor"],
        ["completed", "survivor"],
      ]);
      // The killed attempt's second call had no report when its worker died: the sum is a floor, and says so.
      expect(result.usage).toMatchObject({ inputTokens: 1110, costUsd: 0.5, known: "partial" });
      expect(result.wastedUsage).toMatchObject({ inputTokens: 110 });
      expect(result.attempts[0]).toMatchObject({
        failure: { code: "worker_lost" },
        usage: { inputTokens: 10, known: "partial" },
      });
    }
    expect(results.map(({ output, iteration }) => [output, iteration])).toEqual([
      ["2 after 2", 2],
      ["1 after 0", undefined],
    ]);
    const lines = (await readFile(log, "utf8")).trim().split("\n").toSorted();
    const ran = (id: string, before: number): string[] => [1, 2, 3].map((attempt) => `${id} ${attempt} ${before}`);
    expect(lines).toEqual([...ran(turn.id, 2), ...ran(alone.id, 0)]);

    const record = (await scene.ledger("killed").attempt(turn.id, 1))?.record;
    expect(record).toMatchObject({ status: "lost", crashed: true, output: "of attempt 1", iteration: 2 });
    expect(record?.steps.flatMap((step) => step.toolCalls)).toMatchObject([{ name: "t", status: "unresolved" }]);
    const events = (await eventsOf(turn)).filter(({ attempt }) => attempt === 1);
    expect(events.slice(-2).map(({ type }) => type)).toEqual(["agent_end", "rolled_back"]);
    expect(events.filter(({ type }) => type === "tool_end")).toMatchObject([{ status: "unresolved" }]);
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, i) => i + 1));
    const counts = await scene.ledger("killed").batchCounts("kb");
    expect(counts).toMatchObject({
      attempts: 6,
      crashedAttempts: 4,
      outcomes: { ok: 2 },
      usage: { inputTokens: 2220, known: "partial" },
    });
    expect(await scene.ledger("killed").facts(turn.id)).toMatchObject({ crashes: 1, spent: 1 });
    for (const id of [turn.id, alone.id]) expect(await scene.told("killed", id)).toBe("completed");

    // The frozen worker comes back to a turn that was taken over: its output is refused, its spend booked beside the Result.
    const inTime = await chilled.result({ waitMs: 40_000 });
    expect(inTime).toMatchObject({ ok: true, output: "in time", usage: { inputTokens: 110 } });
    await writeFile(thawed, "");
    frozen.kill("SIGCONT");
    expect(
      await until(async () => (await scene.ledger("frozen").facts("f1")).attempts[0]?.late, "the late spend"),
    ).toMatchObject({ inputTokens: 1000 });
    expect(await chilled.result()).toEqual(inTime);
    expect(await scene.told("frozen", "f1")).toBe("completed");
    frozen.kill("SIGKILL");
    await frozen.ended;
    await scene.check("frozen");
    const job = await scene.queue("killed").getJob(jobId(turn.id));
    expect(job?.data.crashed).toMatchObject([
      { attempt: 1, status: "lost" },
      { attempt: 2, status: "crashed" },
    ]);
    await scene.check("killed");
  });
});

test("A02: a turn whose workers die maxCrashes times ends as lost, ok false, with all its records", async () => {
  const agent = defineAgent("doomed", async ({ emit }) => {
    emit.text("half");
    void emit.call();
    await new Promise<never>(() => undefined);
  });
  await scene.publish(agent);
  const turn = await scene.turnq.submit({
    agent: "doomed",
    input: "x",
    id: "t1",
    limits: { graceMs: 0 },
    retry: { maxCrashes: 2, backoff: { delayMs: 1 } },
  });
  // Workers that renew nothing are as good as dead.
  const dead = { ...QUICK, renewEveryMs: 3_600_000, maxGapMs: 3_600_000 };
  for (const attempt of [1, 2]) {
    await scene.worker([agent], { id: `dead-${attempt}`, concurrency: 1, leases: dead });
    await until(
      async () => (await scene.ledger("doomed").events("t1", attempt, 0))?.events.length,
      `attempt ${attempt}`,
    );
    if (attempt === 1) await scene.stall("doomed", "t1");
    // The lane is alive as long as somebody renews in it.
    await scene.ledger("doomed").renew([]);
  }
  await scene.stall("doomed", "t1");
  await scene.worker([agent], { id: "closer", leases: QUICK });
  const result = await turn.result({ waitMs: 20_000 });
  expect(result).toMatchObject({ ok: false, status: "lost", failure: { code: "worker_lost" } });
  expect(result.attempts.map(({ status, worker }) => [status, worker])).toEqual([
    ["lost", "dead-1"],
    ["lost", "dead-2"],
  ]);
  expect(await scene.told("doomed", "t1")).toBe("failed");
  expect((await scene.queue("doomed").getJob("t1"))?.data.crashed).toHaveLength(2);
  for (const attempt of [1, 2])
    expect((await scene.ledger("doomed").attempt("t1", attempt))?.record).toMatchObject({
      output: "half",
      status: "lost",
    });
});
