import { afterAll, beforeAll, expect, test } from "vitest";
import { setTimeout as sleep } from "node:timers/promises";
import type { Redis } from "ioredis";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { scriptedAgent } from "../../../src/agents/scripted/scripted-agent.ts";
import { commandOf, defineScripts, SCRIPT_NAMES } from "../../../src/ledger/scripts.ts";
import type { AttemptName } from "../../../src/queue/worker-context.ts";
import { SILENT } from "../../../src/telemetry/log.ts";
import { throwAwayRedis, type ThrowAwayRedis } from "../../redis.ts";
import { Gate, QUICK, Scene, until } from "./scene.ts";

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

test("invariant 10, A01: the lock is lost three times while a turn runs: the deliveries join the live run, and ask nothing before it has ended", async () => {
  let runs = 0;
  const gate = new Gate();
  const agent = defineAgent("joined", async ({ text }) => {
    if (text === "another") return text;
    runs += 1;
    await gate.opened;
    return "once";
  });
  const begins: unknown[] = [];
  const prepare = (redis: Redis): void => {
    defineScripts(redis);
    const begin = Reflect.get(redis, "turnq_beginBuffer") as (...args: unknown[]) => Promise<unknown>;
    Reflect.set(redis, "turnq_beginBuffer", (...args: unknown[]) => {
      begins.push(args[1]);
      return begin.apply(redis, args);
    });
  };
  await scene.worker([agent], { concurrency: 5, prepare });
  const turn = await scene.turnq.submit({ agent: "joined", input: "x", id: "t1" });
  await until(() => runs === 1);
  for (let lost = 1; lost <= 3; lost++) {
    await scene.stall("joined", "t1");
    await until(async () => (await scene.redis.hget(scene.bull("joined", "t1"), "ats")) === String(lost + 1));
    // A turn that was fetched later has been through: whatever that delivery would have asked is asked.
    const another = await scene.turnq.submit({ agent: "joined", input: "another", id: `another-${lost}` });
    await another.result({ waitMs: 20_000 });
    expect(begins.filter((id) => id === "t1")).toHaveLength(1);
  }
  gate.open();
  const result = await turn.result({ waitMs: 20_000 });
  expect(result).toMatchObject({ ok: true, output: "once", attempts: [{ attempt: 1 }] });
  expect(await scene.told("joined", "t1")).toBe("completed");
  expect(runs).toBe(1);
  await scene.check("joined");
});

test("invariant 10, D04: another worker that is given a turn that runs elsewhere waits for it and does not run it", async () => {
  const runs: string[] = [];
  const gate = new Gate();
  const agent = (worker: string) =>
    defineAgent("elsewhere", async () => {
      runs.push(worker);
      await gate.opened;
      return "once";
    });
  const leases = { ...QUICK, leaseMs: 2000 };
  await scene.publish(agent("nobody"));
  const turn = await scene.turnq.submit({ agent: "elsewhere", input: "x", id: "t1" });
  await scene.worker([agent("first")], { id: "first", concurrency: 1, leases });
  await until(() => runs.length === 1);
  await scene.worker([agent("second")], { id: "second", leases });
  await scene.stall("elsewhere", "t1");
  await until(
    async () => Number(await scene.redis.hget(scene.bull("elsewhere", "t1"), "ats")) >= 2,
    "a delivery at the second worker",
  );
  gate.open();
  expect(await turn.result({ waitMs: 20_000 })).toMatchObject({ ok: true, attempts: [{ worker: "first" }] });
  expect(await scene.told("elsewhere", "t1")).toBe("completed");
  expect(runs).toEqual(["first"]);
  await scene.check("elsewhere");
});

test.each([
  ["refuses writes", "min-replicas-to-write", "1", "0"],
  ["is full", "maxmemory", "1", "0"],
] as const)(
  "invariant 10, A10: a Redis that %s when a turn ends: what was done is stored once it takes it",
  async (what, setting, bad, good) => {
    const name = what.replaceAll(" ", "-");
    let runs = 0;
    const gate = new Gate();
    const agent = defineAgent(name, async ({ emit }) => {
      runs += 1;
      await gate.opened;
      void emit.call();
      emit.usage({ inputTokens: 3 });
      return "kept";
    });
    const refusals: object[] = [];
    const log = { ...SILENT, warn: (facts: object) => void refusals.push(facts) };
    await scene.worker([agent], { log });
    const turn = await scene.turnq.submit({ agent: name, input: "x", id: "t1" });
    await until(() => runs === 1);
    await scene.redis.config("SET", setting, bad);
    try {
      gate.open();
      await until(() => refusals.length > 0, "a refusal");
      await expect(scene.turnq.submit({ agent: name, input: "y" })).rejects.toMatchObject({ code: "redis_refused" });
    } finally {
      await scene.redis.config("SET", setting, good);
    }
    expect(await turn.result({ waitMs: 20_000 })).toMatchObject({
      ok: true,
      output: "kept",
      usage: { inputTokens: 3 },
      attempts: [{ attempt: 1 }],
    });
    expect(runs).toBe(1);
    await scene.check(name);
  },
);

test("invariant 5: no overlap: a second attempt starts only after the processes of the first are swept", async () => {
  const order: string[] = [];
  const swept = new Gate();
  const agent = defineAgent("swept", ({ attempt }) => {
    order.push(`attempt ${attempt}`);
    if (attempt === 1) throw new Error("boom");
    return "done";
  });
  const processes = {
    mark: () => "",
    sweepEarlier: async ({ turn, attempt, lane }: AttemptName) => {
      order.push(`sweep ${lane}/${turn}/${attempt}`);
      await swept.opened;
      order.push("swept");
    },
  };
  await scene.worker([agent], { processes });
  const turn = await scene.turnq.submit({ agent: "swept", input: "x", id: "t1", retry: { backoff: { delayMs: 1 } } });
  await until(() => order.length === 2);
  const another = await scene.turnq.submit({ agent: "swept", input: "y", id: "t2", retry: { maxAttempts: 1 } });
  await another.result({ waitMs: 20_000 });
  expect(order).toEqual(["attempt 1", "sweep swept/t1/2", "attempt 1"]);
  swept.open();
  await turn.result({ waitMs: 20_000 });
  expect(order.slice(3)).toEqual(["swept", "attempt 2"]);
});

test("invariant 11, D11: slots come back: after 50 turns of which most crash, hang or fail, as many run at once as before", async () => {
  const agent = scriptedAgent("slots");
  const worker = await scene.worker([agent], { concurrency: 2 });
  const kinds = [
    [{ say: "ok" }],
    [{ crash: "boom" }],
    [{ hang: true }],
    [{ breakRecord: "x" }, { say: "x" }],
    [{ tool: "t", open: true }, { crash: "late" }],
  ] as const;
  const turns = [];
  for (let i = 0; i < 50; i++) {
    const script = JSON.parse(JSON.stringify(kinds[i % kinds.length]));
    turns.push(
      await scene.turnq.submit({
        agent: "slots",
        input: "x",
        options: { script },
        limits: { timeoutMs: 60, graceMs: 0 },
        retry: { maxAttempts: 2, backoff: { delayMs: 1 } },
      }),
    );
  }
  const results = await Promise.all(turns.map((turn) => turn.result({ waitMs: 40_000 })));
  expect(results.filter(({ ok }) => ok).length).toBeGreaterThan(0);
  expect(results.filter(({ ok }) => !ok).length).toBeGreaterThanOrEqual(40);
  await until(() => worker.worker.running === 0);
  // Two turns of which each waits for the other can only end when both slots are free.
  let here = 0;
  const both = new Gate();
  const pair = defineAgent(
    "pair",
    async () => {
      here += 1;
      if (here === 2) both.open();
      await both.opened;
      return "met";
    },
    { lane: "slots" },
  );
  await worker.close();
  const next = await scene.worker([agent, pair], { concurrency: 2 });
  const crashing = await scene.turnq.submit({
    agent: "slots",
    input: "x",
    options: { script: [{ crash: "x" }] },
    retry: { maxAttempts: 1 },
  });
  await crashing.result({ waitMs: 20_000 });
  const met = await Promise.all([
    scene.turnq.submit({ agent: "pair", input: "1" }),
    scene.turnq.submit({ agent: "pair", input: "2" }),
  ]);
  expect(await Promise.all(met.map(async (turn) => (await turn.result({ waitMs: 20_000 })).output))).toEqual([
    "met",
    "met",
  ]);
  await until(() => next.worker.running === 0);
  await scene.check("slots");
});

/** Every script twice, as after a cut connection, while everything else goes on. */
function sendTwice(redis: Redis): void {
  defineScripts(redis);
  for (const name of SCRIPT_NAMES) {
    for (const suffix of ["", "Buffer"]) {
      const command = `${commandOf(name)}${suffix}`;
      const once = Reflect.get(redis, command) as (...args: unknown[]) => Promise<unknown>;
      Reflect.set(redis, command, async function (this: unknown, ...args: unknown[]): Promise<unknown> {
        await once.apply(this, args);
        return once.apply(this, args);
      });
    }
  }
}

test("invariant 13: a batch with sessions, crashes and retries, each script executed twice, ends as if each had been executed once", async () => {
  const agent = scriptedAgent("double");
  await scene.publish(agent);
  const script = {
    "1": [{ call: true }, { usage: { inputTokens: 1 } }, { crash: "boom" }],
    "*": [{ call: true }, { usage: { inputTokens: 10 } }, { say: "{iteration}" }],
  };
  const good = [{ call: true }, { usage: { inputTokens: 100 } }, { say: "{iteration}" }];
  const turns = [];
  for (let i = 0; i < 30; i++) {
    turns.push(
      await scene.turnq.submit({
        agent: "double",
        input: "x",
        session: `s${i % 5}`,
        batch: { id: "db", sample: `${i}`, epoch: 1 },
        options: { script: i % 2 === 0 ? script : good },
        retry: { backoff: { delayMs: 2 } },
      }),
    );
  }
  for (let i = 0; i < 2; i++) await scene.worker([agent], { prepare: sendTwice });
  const results = await Promise.all(turns.map((turn) => turn.result({ waitMs: 40_000 })));
  expect(results.map(({ iteration }) => iteration)).toEqual(turns.map((_, i) => Math.floor(i / 5) + 1));
  expect(results.map(({ attempts }) => attempts.length)).toEqual(turns.map((_, i) => (i % 2 === 0 ? 2 : 1)));
  expect(await scene.turnq.batch("db").progress()).toMatchObject({
    attempts: 45,
    crashedAttempts: 15,
    outcomes: { ok: 30 },
    usage: { inputTokens: 15 * 11 + 15 * 100 },
  });
  await scene.check("double");
});

test("A46: never more turns at once than a worker's concurrency, over all its lanes", async () => {
  let now = 0;
  let most = 0;
  const make = (name: string) =>
    defineAgent(name, async () => {
      now += 1;
      most = Math.max(most, now);
      await sleep(5);
      now -= 1;
      return "x";
    });
  const agents = [make("lane-a"), make("lane-b"), make("lane-c")];
  await scene.publish(...agents);
  const turns = [];
  for (let i = 0; i < 45; i++) turns.push(await scene.turnq.submit({ agent: agents[i % 3]?.name ?? "", input: "x" }));
  await scene.worker(agents, { concurrency: 3 });
  await Promise.all(turns.map((turn) => turn.result({ waitMs: 20_000 })));
  expect(most).toBe(3);
});
