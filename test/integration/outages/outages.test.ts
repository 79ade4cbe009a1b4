import { setTimeout as sleep } from "node:timers/promises";
import type { Redis } from "ioredis";
import { expect, test } from "vitest";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import type { TurnResult } from "../../../src/domain/turn-result.ts";
import { connect, whenReady } from "../../../src/redis/connection.ts";
import { startRedisServer, type RedisServer } from "../../../src/redis/server.ts";
import { openTurnq } from "../../../src/app.ts";
import { openRedisProxy } from "../../redis-proxy.ts";
import { redisBinary, throwAwayRedis, throwAwaySingle } from "../../redis.ts";
import { Gate, Scene, until } from "../queue/scene.ts";

/** What the docs say a producer waits for at most, in ms, and what a loaded machine may add. */
const PRODUCER_WITHIN_MS = 10_000 + 5_000;

/** What a call threw, and how long it took. */
async function failureOf(call: () => Promise<unknown>): Promise<{ readonly code: unknown; readonly tookMs: number }> {
  const at = performance.now();
  const thrown: unknown = await call().then(
    () => undefined,
    (error: unknown) => error,
  );
  const code: unknown = Reflect.get(Object(thrown), "code");
  return { code: code ?? String(thrown), tookMs: performance.now() - at };
}

/**
 * What was spent is in the Result, to the token. Where a cancel came before a worker that was back had renewed its lease,
 * the attempt is lost: then the Result says that it is a floor, and what is beyond it is booked beside it.
 */
async function spendIsKnown(scene: Scene, { turn, usage, attempts }: TurnResult, spent: number): Promise<void> {
  if (usage.inputTokens === spent) return;
  expect({ turn, usage, status: attempts[0]?.status }).toMatchObject({ usage: { known: "partial" }, status: "lost" });
  await until(async () => {
    const late = (await scene.ledger("away").facts(turn)).attempts[0]?.late?.inputTokens ?? 0;
    return (usage.inputTokens ?? 0) + late === spent;
  }, `what ${turn} spent beyond its Result`);
}

const OUTAGES = [
  [3, "killed"],
  [3, "frozen"],
  [12, "killed"],
  [12, "frozen"],
  [60, "killed"],
  [60, "frozen"],
] as const;

// All at once: the longest of them is what the file takes.
test.concurrent.for(OUTAGES)(
  "invariants 2, 3 and 10: Redis is away for %s s, %s: what runs goes on and spends, ends during or after it, and is stored once",
  async ([seconds, how], { onTestFinished }) => {
    const server = await throwAwayRedis({ appendfsync: "always" });
    const scene = await Scene.open(server.url);
    let again: RedisServer | undefined;
    let frozen = false;
    onTestFinished(async () => {
      if (frozen) process.kill(server.pid, "SIGCONT");
      await scene.close();
      await again?.stop();
      await server.stop();
    });
    const ends = { during: new Gate(), after: new Gate() };
    const runs: string[] = [];
    const spent = new Map<string, number>();
    const agent = defineAgent("away", async ({ text, emit, signal }) => {
      runs.push(text);
      const spend = (): void => {
        spent.set(text, (spent.get(text) ?? 0) + 1);
        void emit.call();
        emit.usage({ inputTokens: 1 });
      };
      spend();
      const going = setInterval(spend, 250);
      const end = text.startsWith("during") ? ends.during : text.startsWith("next") ? undefined : ends.after;
      const aborted = new Promise((resolve) => signal.addEventListener("abort", resolve));
      await Promise.race([end?.opened, aborted]);
      clearInterval(going);
      spend();
      return text;
    });
    const workers = await Promise.all([1, 2].map(() => scene.worker([agent], { concurrency: 3 })));
    const first = ["during-1", "during-2", "after-1", "cancelled"];
    const submit = (id: string, session?: string) =>
      scene.turnq.submit({ agent: "away", input: id, id, ...(session === undefined ? {} : { session }) });
    const handles = [
      await submit("during-1", "s1"),
      await submit("during-2"),
      await submit("after-1", "s2"),
      await submit("cancelled"),
      await submit("next-1", "s1"),
      await submit("next-2", "s2"),
    ];
    await until(() => first.every((id) => runs.includes(id)), "the start of all");
    const before = new Map(spent);

    if (how === "killed") {
      process.kill(server.pid, "SIGKILL");
      await server.exited;
    } else {
      frozen = true;
      process.kill(server.pid, "SIGSTOP");
    }
    const downAt = performance.now();
    const failing = Promise.all([
      failureOf(() => submit("refused")),
      failureOf(async () => handles[3]?.cancel()),
      failureOf(async () => handles[0]?.row()),
    ]);
    await until(() => first.every((id) => (spent.get(id) ?? 0) > (before.get(id) ?? 0)), "spend during the outage");
    ends.during.open();
    await sleep(seconds * 1000 - (performance.now() - downAt));
    if (how === "killed") {
      again = await startRedisServer({ binary: redisBinary(), dir: server.dir, port: server.port });
    } else {
      process.kill(server.pid, "SIGCONT");
      frozen = false;
    }
    await until(async () => (await scene.redis.ping().catch(() => "")) === "PONG", "Redis");
    for (const { code, tookMs } of await failing) {
      expect(tookMs).toBeLessThan(PRODUCER_WITHIN_MS);
      // A frozen one executes what was sent when it goes on, unless the caller has given up.
      if (how === "killed") expect(code).toBe("redis_unreachable");
      else expect(["redis_unreachable", "undefined"]).toContain(code);
    }
    // Again is as once, with the same client.
    const refused = await until(() => submit("refused").catch(() => undefined), "a client that works again");
    await handles[3]?.cancel({ reason: "again" });
    ends.after.open();
    const results = await Promise.all([...handles, refused].map((handle) => handle.result({ waitMs: 40_000 })));
    for (const result of results) {
      const cancelled = result.turn === "cancelled";
      expect(result, result.turn).toMatchObject({ ok: !cancelled, cancelled, attempts: [{ attempt: 1 }] });
      expect(result.attempts).toHaveLength(1);
      await spendIsKnown(scene, result, spent.get(result.turn) ?? 0);
    }
    expect(runs.toSorted()).toEqual([...first, "next-1", "next-2", "refused"].toSorted());
    for (const handle of [...handles, refused]) await scene.told("away", handle.id);
    expect(workers.map(({ worker }) => worker.running)).toEqual([0, 0]);
    await scene.check("away");
  },
);

test.concurrent("A11: against a black hole every call of a producer ends in time with redis_unreachable, and works again after it", async ({
  onTestFinished,
}) => {
  const server = await throwAwayRedis({ appendfsync: "always" });
  const proxy = await openRedisProxy(server.port);
  const scene = await Scene.open(server.url);
  const turnq = await openTurnq({ redis: proxy.url });
  onTestFinished(async () => {
    proxy.hold(false);
    await turnq.close();
    await scene.close();
    await proxy.close();
    await server.stop();
  });
  await scene.publish(defineAgent("hole", ({ text }) => text));
  const turn = await turnq.submit({ agent: "hole", input: "x", id: "t1" });
  const items = [1, 2, 3].map((id) => ({ id: String(id), input: "x" }));
  const many = () => turnq.submitMany(items, { batch: "b", agents: ["hole"] });
  const batch = await many();
  const calls = {
    submit: () => turnq.submit({ agent: "hole", input: "x", id: "t2" }),
    submitMany: many,
    result: () => turn.result({ waitMs: 100 }),
    row: () => turn.row(),
    progress: () => batch.progress(),
    workers: () => turnq.workers.list(),
    cancel: () => turn.cancel(),
  };
  proxy.hold(true);
  const failures = await Promise.all(
    Object.entries(calls).map(async ([name, call]) => ({ name, ...(await failureOf(call)) })),
  );
  for (const { name, code, tookMs } of failures) {
    expect(code, name).toBe("redis_unreachable");
    expect(tookMs, name).toBeLessThan(PRODUCER_WITHIN_MS);
  }
  proxy.hold(false);
  await until(() => turn.row().catch(() => undefined), "an answer");
  for (const name of ["submit", "submitMany", "row", "progress", "workers", "cancel", "result"] as const)
    expect(await failureOf(calls[name]), name).toMatchObject({ code: "undefined" });
  expect((await batch.progress()).turns).toBe(3);
});

test.concurrent("A11: a producer's call that has no answer when Redis dies fails at once, and what failed is not executed when Redis is back", async ({
  onTestFinished,
}) => {
  const server = await throwAwaySingle({ appendfsync: "no" });
  const other = await throwAwaySingle({ appendfsync: "no" });
  const proxy = await openRedisProxy(server.port);
  // It would wait this long, were it not told that the connection is over.
  const patient = connect(proxy.url, "producer", { commandTimeoutMs: 3_600_000 });
  const hasty = connect(proxy.url, "producer", { commandTimeoutMs: 500 });
  onTestFinished(async () => {
    for (const redis of [patient, hasty]) redis.disconnect();
    await proxy.close();
    await other.stop();
    await server.stop();
  });
  for (const redis of [patient, hasty]) await whenReady(redis, 10_000);
  const calls = (redis: Redis) => [redis.incr("n"), redis.multi().incr("n").incr("n").exec()];
  const seen = async (redis: Redis) => until(async () => redis.get("n").then(String, () => undefined), "an answer");

  proxy.hold(true);
  await Promise.all(calls(hasty).map((call) => expect(call).rejects.toThrow("Command timed out")));
  proxy.cut();
  proxy.hold(false);
  await whenReady(hasty, 10_000);
  expect(await seen(hasty), "the connection is there again at once").toBe("null");

  await whenReady(patient, 10_000);
  proxy.hold(true);
  const unanswered = calls(patient);
  process.kill(server.pid, "SIGKILL");
  await server.exited;
  proxy.cut();
  proxy.hold(false);
  await Promise.all(unanswered.map((call) => expect(call).rejects.toThrow("Connection is closed")));
  proxy.retarget(other.port);
  await whenReady(patient, 10_000);
  expect(await seen(patient), "it is there again late").toBe("null");
});

test.concurrent("A11: a producer's call whose connection is cut is sent again on the next one", async ({
  onTestFinished,
}) => {
  const server = await throwAwaySingle({ appendfsync: "no" });
  const proxy = await openRedisProxy(server.port);
  const redis = connect(proxy.url, "producer");
  onTestFinished(async () => {
    redis.disconnect();
    await proxy.close();
    await server.stop();
  });
  await whenReady(redis, 10_000);
  const cut = proxy.cutReply(({ name }) => name === "set");
  expect(await redis.set("n", "1")).toBe("OK");
  await cut;
});

test.concurrent("A11, A16, D02: a full Redis refuses with what is stored, and submitting again completes the batch without duplicates", async ({
  onTestFinished,
}) => {
  const server = await throwAwayRedis({ appendfsync: "always" });
  const scene = await Scene.open(server.url);
  onTestFinished(async () => {
    await scene.close();
    await server.stop();
  });
  await scene.publish(defineAgent("full", ({ text }) => text));
  const items = async function* (fillAt: number) {
    for (let i = 0; i < 450; i++) {
      if (i === fillAt) await scene.redis.config("SET", "maxmemory", "1");
      yield { id: String(i), input: "x" };
    }
  };
  const submitting = scene.turnq.submitMany(items(250), { batch: "b", agents: ["full"] });
  await expect(submitting).rejects.toMatchObject({
    code: "redis_refused",
    message: expect.stringContaining("200 turns are stored"),
    details: { stored: 200 },
  });
  await expect(scene.turnq.submit({ agent: "full", input: "x", id: "t1" })).rejects.toMatchObject({
    code: "redis_refused",
    message: expect.stringContaining("OOM"),
  });
  expect((await scene.turnq.batch("b").progress()).turns).toBe(200);
  await scene.redis.config("SET", "maxmemory", "0");
  const batch = await scene.turnq.submitMany(items(-1), { batch: "b", agents: ["full"] });
  expect((await batch.progress()).turns).toBe(450);
  expect(await scene.redis.llen(scene.bull("full", "wait"))).toBe(450);
  await scene.check("full");
});
