import type { Redis } from "ioredis";
import { afterAll, beforeAll, expect, test } from "vitest";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { scriptedAgent } from "../../../src/agents/scripted/scripted-agent.ts";
import { jobId } from "../../../src/ledger/keys.ts";
import type { TurnRow } from "../../../src/ledger/ledger.ts";
import { commandOf, defineScripts, type ScriptName } from "../../../src/ledger/scripts.ts";
import { cancelMany, cancelTurn, type CancelProgress } from "../../../src/queue/cancel.ts";
import { throwAwayRedis, type ThrowAwayRedis } from "../../redis.ts";
import { eventsOf, Gate, QUICK, Scene, until, workerProcess } from "./scene.ts";

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

/** Holds a connection's calls of one script back until they are let go. */
class Held {
  readonly reached = new Gate();
  readonly go = new Gate();
  readonly #name: ScriptName;

  constructor(name: ScriptName) {
    this.#name = name;
  }

  readonly prepare = (redis: Redis): void => {
    defineScripts(redis);
    const command = commandOf(this.#name);
    const once: (...args: unknown[]) => Promise<unknown> = Reflect.get(redis, command);
    Reflect.set(redis, command, async (...args: unknown[]): Promise<unknown> => {
      this.reached.open();
      await this.go.opened;
      return once.apply(redis, args);
    });
  };
}

/** A worker's connection on which no message of a cancel arrives. */
function deaf(redis: Redis): void {
  const duplicate = redis.duplicate.bind(redis);
  redis.duplicate = (...args) => {
    const other = duplicate(...args);
    other.subscribe = () => Promise.resolve(0);
    return other;
  };
}

const stateOf = async (lane: string, id: string): Promise<string | undefined> =>
  (await scene.ledger(lane).row(id))?.state;

test("D22: a running turn that heeds shouldStop is cancelled within its grace, what it had said kept, its slot free", async () => {
  const agent = defineAgent("heeds", async ({ text, shouldStop }) => {
    if (text === "next") return "ran";
    await until(() => shouldStop() === "cancelled");
    return "so far";
  });
  await scene.worker([agent], { concurrency: 1 });
  const turn = await scene.turnq.submit({ agent: "heeds", input: "long", id: "t1" });
  await until(async () => (await stateOf("heeds", "t1")) === "running");
  expect(await turn.cancel({ reason: "user left", by: "api" })).toEqual({ kind: "requested" });
  const result = await turn.result({ waitMs: 20_000 });
  expect(result).toMatchObject({
    ok: false,
    status: "cancelled",
    cancelled: true,
    error: "user left",
    output: "so far",
    stopReason: "cancelled",
    failure: { code: "cancelled", message: "user left" },
    attempts: [{ attempt: 1, status: "cancelled" }],
  });
  expect((await turn.record(1))?.crashed).toBe(false);
  expect((await turn.row()).cancel).toMatchObject({ reason: "user left", by: "api", phase: "stopping" });
  // DESIGN 5: a turn that was cancelled is completed to BullMQ's tools.
  expect(await scene.told("heeds", "t1")).toBe("completed");
  // Invariant 11.
  const next = await scene.turnq.submit({ agent: "heeds", input: "next" });
  expect(await next.result({ waitMs: 20_000 })).toMatchObject({ ok: true, output: "ran" });
  expect(await turn.cancel({ reason: "again" })).toEqual({ kind: "already" });
  expect(await turn.result()).toEqual(result);
  await scene.check("heeds");
});

test("A47: one that ignores it is killed after its grace: cancelled once, not run again; C35: cancelled twice is cancelled once", async () => {
  let runs = 0;
  const agent = defineAgent("ignores", async ({ emit }) => {
    runs += 1;
    emit.text("half");
    await new Promise<never>(() => undefined);
    return "never";
  });
  await scene.worker([agent]);
  const turn = await scene.turnq.submit({ agent: "ignores", input: "x", id: "t1", limits: { graceMs: 30 } });
  await until(() => runs === 1);
  const kinds = await Promise.all([turn.cancel({ reason: "one" }), turn.cancel({ reason: "two" })]);
  expect(kinds).toEqual([{ kind: "requested" }, { kind: "requested" }]);
  const result = await turn.result({ waitMs: 20_000 });
  expect(result).toMatchObject({ status: "cancelled", output: "half", attempts: [{ status: "cancelled" }] });
  expect(["one", "two"]).toContain(result.error);
  expect(await turn.record(1)).toMatchObject({ status: "cancelled", crashed: true, crashReason: "turn cancelled" });
  const row = await turn.row();
  expect(row.cancel?.phase).toBe("killed");
  expect(row.cancel?.killedAt).toBeGreaterThanOrEqual(row.cancel?.stoppingAt ?? Number.POSITIVE_INFINITY);
  const events = await eventsOf(turn);
  expect(events.filter(({ type }) => type === "agent_end" || type === "turn_completed")).toMatchObject([
    { type: "agent_end", status: "cancelled" },
    { type: "turn_completed", outcome: "cancelled", ok: false },
  ]);
  expect(await scene.told("ignores", "t1")).toBe("completed");
  expect(runs).toBe(1);
  await scene.check("ignores");
});

test("a cancel whose message is lost is named by the next renewal of leases", async () => {
  const agent = defineAgent("deaf", async ({ shouldStop }) => (await until(() => shouldStop())) ?? "");
  await scene.worker([agent], { prepare: deaf, leases: { renewEveryMs: 20 } });
  const turn = await scene.turnq.submit({ agent: "deaf", input: "x", id: "t1" });
  await until(async () => (await stateOf("deaf", "t1")) === "running");
  await turn.cancel();
  expect(await turn.result({ waitMs: 20_000 })).toMatchObject({ status: "cancelled", error: "the turn was cancelled" });
});

test("invariant 1, C33: cancel before settle is cancelled, whatever the agent answered; its session is as it was", async () => {
  const held = new Held("settle");
  const agent = defineAgent("before", ({ text, history }) => `${text} after ${history.length}`);
  await scene.worker([agent], { prepare: held.prepare });
  const turn = await scene.turnq.submit({ agent: "before", input: "x", id: "t1", session: "before" });
  await held.reached.opened;
  expect(await turn.cancel({ reason: "too slow" })).toEqual({ kind: "requested" });
  held.go.open();
  expect(await turn.result({ waitMs: 20_000 })).toMatchObject({
    ok: false,
    status: "cancelled",
    error: "too slow",
    output: "x after 0",
    score: null,
    attempts: [{ status: "completed" }],
  });
  const events = await eventsOf(turn);
  expect(events.filter(({ type }) => type === "turn_completed")).toMatchObject([{ outcome: "cancelled", ok: false }]);
  const next = await scene.turnq.submit({ agent: "before", input: "y", session: "before" });
  expect(await next.result({ waitMs: 20_000 })).toMatchObject({ ok: true, output: "y after 0", iteration: 1 });
  await scene.check("before");
});

test("invariant 1: settle before cancel stands", async () => {
  const agent = defineAgent("after", () => "answer");
  await scene.publish(agent);
  const turn = await scene.turnq.submit({ agent: "after", input: "x", id: "t1" });
  const other = await Scene.open(server.url);
  try {
    const held = new Held("cancel");
    held.prepare(other.redis);
    const cancelling = cancelTurn(other.ledger("after"), "t1", { reason: "too late" });
    await held.reached.opened;
    await scene.worker([agent]);
    const result = await turn.result({ waitMs: 20_000 });
    held.go.open();
    expect(await cancelling).toEqual({ kind: "already" });
    expect(result).toMatchObject({ ok: true, output: "answer" });
    expect(await turn.result()).toEqual(result);
    expect((await turn.row()).cancel).toBeUndefined();
  } finally {
    await other.close();
  }
});

test("invariant 4: a turn that was begun and closed since the cancel looked is cancelled with that attempt in its sum", async () => {
  const agent = defineAgent("between", ({ emit }) => {
    emit.usage({ inputTokens: 5 });
    throw new Error("boom");
  });
  await scene.publish(agent);
  const turn = await scene.turnq.submit({
    agent: "between",
    input: "x",
    id: "t1",
    retry: { backoff: { delayMs: 600_000, maxMs: 600_000 } },
  });
  const other = await Scene.open(server.url);
  try {
    const held = new Held("cancel");
    held.prepare(other.redis);
    const cancelling = cancelTurn(other.ledger("between"), "t1");
    await held.reached.opened;
    await scene.worker([agent]);
    await until(async () => (await stateOf("between", "t1")) === "delayed");
    held.go.open();
    expect(await cancelling).toEqual({ kind: "settled" });
    expect(await turn.result()).toMatchObject({
      status: "cancelled",
      usage: { inputTokens: 5 },
      attempts: [{ status: "crashed" }],
    });
    // Its job does not stand in delayed for the rest of the back-off.
    expect(await scene.told("between", "t1")).toBe("completed");
    await scene.check("between");
  } finally {
    await other.close();
  }
});

test.each(["crash", "shutdown"] as const)(
  "nothing follows a cancel that nobody had heard of when the attempt ended by a %s: the turn is settled",
  async (how) => {
    const lane = `unheard-${how}`;
    const [started, gate] = [new Gate(), new Gate()];
    let runs = 0;
    const agent = defineAgent(lane, async ({ shouldStop }) => {
      runs += 1;
      started.open();
      if (how === "shutdown") return (await until(() => shouldStop())) ?? "";
      await gate.opened;
      throw new Error("boom");
    });
    const worker = await scene.worker([agent], { prepare: deaf, leases: { renewEveryMs: 2000 } });
    const turn = await scene.turnq.submit({ agent: lane, input: "x", id: "t1", retry: { backoff: { delayMs: 1 } } });
    await started.opened;
    await turn.cancel({ reason: "nobody waits" });
    gate.open();
    if (how === "shutdown") await worker.close(20_000);
    expect(await turn.result({ waitMs: 20_000 })).toMatchObject({
      status: "cancelled",
      error: "nobody waits",
      attempts: [{ status: how === "crash" ? "crashed" : "interrupted" }],
    });
    const events = await eventsOf(turn);
    expect(events.map(({ type }) => type).slice(-2)).toEqual(["rolled_back", "turn_completed"]);
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, i) => i + 1));
    expect(runs).toBe(1);
    await scene.check(lane);
  },
);

test("with no worker up, turns in every state end at once, with one last event; a worker that comes later ends their jobs without a run", async () => {
  let runs = 0;
  const agent = defineAgent("idle", () => {
    runs += 1;
    return "ran";
  });
  await scene.publish(agent);
  const submit = (id: string, more: object = {}) => scene.turnq.submit({ agent: "idle", input: "x", id, ...more });
  const turns = [
    await submit("waiting"),
    await submit("delayed", { delayMs: 86_400_000 }),
    await submit("prioritized", { priority: 7 }),
    await submit("head", { session: "idle" }),
    await submit("parked", { session: "idle" }),
    await submit("later", { session: "idle", delayMs: 86_400_000 }),
  ];
  expect(await Promise.all(turns.map(({ id }) => stateOf("idle", id)))).toEqual([
    "waiting",
    "delayed",
    "waiting",
    "waiting",
    "parked",
    "parked",
  ]);
  for (const turn of turns.toReversed()) expect(await turn.cancel({ reason: "off" })).toEqual({ kind: "settled" });
  for (const turn of turns) {
    expect(await turn.result({ waitMs: 0 })).toMatchObject({ status: "cancelled", error: "off", attempts: [] });
    expect(await eventsOf(turn)).toMatchObject([{ type: "turn_completed", outcome: "cancelled", seq: 1 }]);
  }
  await scene.worker([agent]);
  for (const { id } of turns) expect(await scene.told("idle", jobId(id))).toBe("completed");
  expect(runs).toBe(0);
  await scene.check("idle");
});

test("invariant 7: a session goes on after its running turn is cancelled, with what it was before", async () => {
  const agent = defineAgent("goes-on", async ({ text, history, shouldStop }) => {
    if (text === "b") await until(() => shouldStop());
    return `${text} after ${history.length}`;
  });
  await scene.worker([agent]);
  const [a, b, c] = await Promise.all(
    ["a", "b", "c"].map((input) => scene.turnq.submit({ agent: "goes-on", input, id: input, session: "goes-on" })),
  );
  await until(async () => (await stateOf("goes-on", "b")) === "running");
  await b?.cancel();
  expect(await a?.result({ waitMs: 20_000 })).toMatchObject({ output: "a after 0", iteration: 1 });
  expect(await b?.result({ waitMs: 20_000 })).toMatchObject({ status: "cancelled" });
  expect(await c?.result({ waitMs: 20_000 })).toMatchObject({ output: "c after 2", iteration: 2 });
  await scene.check("goes-on");
});

test("the turn of a dead worker is closed as lost by whoever cancels it, its spend kept, once its lease has ended", async () => {
  const child = await workerProcess(server.url, "dead");
  const script = { script: [{ call: true }, { usage: { inputTokens: 6 } }, { say: "half" }, { hang: true }] };
  const turn = await scene.turnq.submit({ agent: "dead", input: "x", id: "t1", options: script });
  await until(async () =>
    (await scene.ledger("dead").events("t1", 1, 0))?.events.some(({ type }) => type === "text_delta"),
  );
  child.kill("SIGKILL");
  await child.ended;
  const ledger = scene.ledger("dead");
  await ledger.renew([]);
  expect(await turn.cancel({ reason: "gone" })).toEqual({ kind: "requested" });
  await scene.redis.zadd("{turnq:dead}/leases", "XX", 1, "t1#1");
  await ledger.renew([]);
  expect(await turn.cancel({ reason: "another" })).toEqual({ kind: "settled" });
  expect(await turn.result()).toMatchObject({
    status: "cancelled",
    error: "gone",
    output: "half",
    usage: { inputTokens: 6 },
    attempts: [{ status: "lost" }],
  });
  await scene.check("dead");
});

test("a worker that finds a cancelled turn's attempt lost settles the turn and does not run it again", async () => {
  const child = await workerProcess(server.url, "found");
  const turn = await scene.turnq.submit({
    agent: "found",
    input: "x",
    id: "t1",
    options: { script: [{ hang: true }] },
  });
  await until(async () => (await stateOf("found", "t1")) === "running");
  child.kill("SIGKILL");
  await child.ended;
  expect(await turn.cancel({ reason: "gone" })).toEqual({ kind: "requested" });
  await scene.worker([scriptedAgent("found")], { leases: QUICK });
  await scene.redis.zadd("{turnq:found}/leases", "XX", 1, "t1#1");
  await scene.stall("found", "t1");
  expect(await turn.result({ waitMs: 20_000 })).toMatchObject({ status: "cancelled", attempts: [{ status: "lost" }] });
  expect(await scene.told("found", "t1")).toBe("completed");
  await scene.check("found");
});

test("D07, D08: many turns are cancelled some at once, with progress; what is settled stays, what runs is told", async () => {
  const gate = new Gate();
  const agent = defineAgent("many", async ({ text, shouldStop }) => {
    if (text === "quick") return "done";
    gate.open();
    await until(() => shouldStop());
    return "stopped";
  });
  const done = [];
  const worker = await scene.worker([agent], { concurrency: 2 });
  for (let i = 0; i < 5; i++) done.push(await scene.turnq.submit({ agent: "many", input: "quick", id: `quick-${i}` }));
  for (const turn of done) await turn.result({ waitMs: 20_000 });
  const ids = done.map(({ id }) => id);
  for (let i = 0; i < 300; i++) {
    const { id } = await scene.turnq.submit({ agent: "many", input: "long", id: `long-${i}` });
    ids.push(id);
  }
  await gate.opened;
  await until(async () => (await scene.redis.llen(scene.bull("many", "active"))) >= 2);
  const ledger = scene.ledger("many");
  async function* pages(): AsyncGenerator<readonly TurnRow[]> {
    for (let from = 0; from < ids.length; from += 200)
      yield (await ledger.rows(ids.slice(from, from + 200))).flatMap((row) => row ?? []);
  }
  const steps: CancelProgress[] = [];
  for await (const step of cancelMany(pages(), () => ledger, { reason: "stop all" })) steps.push(step);
  const last = steps.at(-1);
  expect(steps.length).toBeGreaterThan(2);
  expect(last).toMatchObject({ turns: 305, already: 5 });
  expect((last?.settled ?? 0) + (last?.requested ?? 0)).toBe(300);
  expect(last?.requested).toBeGreaterThanOrEqual(1);
  const outcomes = await until(async () => {
    const rows = await ledger.rows(ids);
    return rows.every((row) => row?.state === "settled") ? rows.map((row) => row?.outcome) : undefined;
  }, "the end of all");
  expect(outcomes.filter((outcome) => outcome === "ok")).toHaveLength(5);
  expect(outcomes.filter((outcome) => outcome === "cancelled")).toHaveLength(300);
  await until(async () => (await scene.redis.llen(scene.bull("many", "wait"))) === 0, "the end of their jobs");
  await worker.close();
  await scene.check("many");
});

test("a turn that is not there", async () => {
  await expect(cancelTurn(scene.ledger("many"), "ghost")).rejects.toMatchObject({ code: "not_found" });
});
