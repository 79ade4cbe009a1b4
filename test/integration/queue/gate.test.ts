import { afterAll, beforeAll, expect, test } from "vitest";
import { defineAgent, type DefinedAgent } from "../../../src/agent/define-agent.ts";
import type { TurnHandle } from "../../../src/queue/turn-handle.ts";
import type { TurnResult } from "../../../src/domain/turn-result.ts";
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

/** What an agent throws whose provider refuses it. */
function refusal(code: "rate_limited" | "overloaded", afterMs?: number): Error {
  const retryAt = afterMs === undefined ? undefined : Date.now() + afterMs;
  return Object.assign(new Error("429 slow down"), { code, retryAt });
}

async function submit(agent: DefinedAgent, count: number): Promise<TurnHandle[]> {
  await scene.publish(agent);
  const ids = Array.from({ length: count }, (_, i) => `${agent.name}-${i}`);
  return Promise.all(
    ids.map((id, i) => scene.turnq.submit({ agent: agent.name, id, input: String(i), retry: { maxAttempts: 1 } })),
  );
}

function results(turns: readonly TurnHandle[]): Promise<TurnResult[]> {
  return Promise.all(turns.map((turn) => turn.result({ waitMs: 30_000 })));
}

test("C45: a provider that lets 20 a second pass: two workers run 100 turns, none fails, no attempt is spent, and all usage is kept", async () => {
  let [left, refused] = [20, 0];
  const refill = setInterval(() => (left = 20), 1000);
  const agent = defineAgent("limited", ({ emit }) => {
    if (left === 0) {
      refused += 1;
      throw refusal("rate_limited", 1000);
    }
    left -= 1;
    emit.usage({ inputTokens: 1 });
    return "served";
  });
  const turns = await submit(agent, 100);
  await Promise.all([scene.worker([agent], { concurrency: 15 }), scene.worker([agent], { concurrency: 15 })]);
  const all = await results(turns);
  clearInterval(refill);
  expect(all.every(({ ok, usage }) => ok && usage.inputTokens === 1)).toBe(true);
  expect(refused).toBeGreaterThan(0);
  const attempts = all.flatMap((result) => result.attempts);
  expect(attempts.filter(({ failure }) => failure?.code === "rate_limited")).toHaveLength(refused);
  expect(attempts).toHaveLength(100 + refused);
  // At most what two workers run at once is refused each time the gate opens.
  expect(refused).toBeLessThanOrEqual(30 * 6);
  await scene.check("limited");
});

test("U23, C29: with afterToolCalls never a 429 after the tool ends the turn: one tool call, failed, and the gate is closed for the others", async () => {
  let calls = 0;
  const agent = defineAgent("tool-then-429", async ({ emit }) => {
    await emit.tool("pay", {}, () => (calls += 1));
    throw refusal("rate_limited");
  });
  await scene.publish(agent);
  const turn = await scene.turnq.submit({ agent: agent.name, input: "x", retry: { afterToolCalls: "never" } });
  await scene.worker([agent]);
  expect(await turn.result({ waitMs: 30_000 })).toMatchObject({
    ok: false,
    status: "failed",
    failure: { code: "rate_limited" },
    attempts: [{ attempt: 1 }],
    usage: { toolCalls: 1 },
  });
  expect(calls).toBe(1);
  expect(await scene.ledger(agent.name).gate()).toMatchObject({ reason: "rate_limited" });
  await scene.check(agent.name);
});

test("C26: while the gate is closed no job is fetched, not even by a finish, and the turn that was refused keeps its place", async () => {
  const order: string[] = [];
  const [met, go] = [new Gate(), new Gate()];
  let open = false;
  const agent = defineAgent("place", async ({ text }) => {
    if (text === "1" && !open) {
      met.open();
      throw refusal("overloaded", 1500);
    }
    if (text === "0") await go.opened;
    order.push(text);
    return text;
  });
  const turns = await submit(agent, 5);
  await scene.worker([agent], { concurrency: 2 });
  await met.opened;
  const gate = await until(() => scene.ledger("place").gate());
  expect(gate).toMatchObject({ reason: "overloaded" });
  // BullMQ takes from the end of `wait`.
  await until(async () => (await scene.redis.lindex(scene.bull("place", "wait"), -1)) === "place-1");
  open = true;
  go.open();
  await turns[0]?.result({ waitMs: 10_000 });
  await scene.told("place", "place-0");
  if ((await scene.ledger("place").gate()) !== undefined) {
    expect(await scene.redis.llen(scene.bull("place", "active"))).toBe(0);
    expect(order).toEqual(["0"]);
  }
  await results(turns);
  expect(order).toHaveLength(5);
  await scene.check("place");
});

test("A37: requestsPerMinute holds for two workers together, goes on to the end, and closes no slot", async () => {
  const startedAt: number[] = [];
  const agent = defineAgent("paced", () => {
    startedAt.push(performance.now());
    return "x";
  });
  const turns = await submit(agent, 30);
  const laneLimits = { paced: { requestsPerMinute: 600 } };
  const [one, two] = [{ id: "one" }, { id: "two" }].map((more) => ({ ...more, laneLimits, concurrency: 10 }));
  await Promise.all([scene.worker([agent], one), scene.worker([agent], two)]);
  const all = await results(turns);
  expect(all.every(({ ok, attempts }) => ok && attempts.length === 1)).toBe(true);
  // Ten at once, and then 591 a minute: whatever the machine does, it cannot be quicker.
  expect(Math.max(...startedAt) - Math.min(...startedAt)).toBeGreaterThan((20 / 591) * 60_000 - 100);
  await scene.check("paced");
});

test("tokens of an attempt close the lane for all workers, and the gate says why", async () => {
  const agent = defineAgent("tokens", ({ emit }) => {
    emit.usage({ inputTokens: 5000, outputTokens: 1000 });
    return "x";
  });
  const [first, second] = await submit(agent, 2);
  await scene.worker([agent], { concurrency: 1, laneLimits: { tokens: { tokensPerMinute: 6000 } } });
  await first?.result({ waitMs: 10_000 });
  expect(await scene.ledger("tokens").gate()).toMatchObject({ reason: "tokensPerMinute", waiting: 1 });
  expect(await scene.ledger("tokens").row(second?.id ?? "")).toMatchObject({ state: "waiting", attempt: 0 });
});

test("a worker that is closed while the gate is shut ends at once and leaves all turns waiting", async () => {
  const agent = defineAgent("shut", () => {
    throw refusal("rate_limited", 600_000);
  });
  const turns = await submit(agent, 6);
  const worker = await scene.worker([agent], { concurrency: 3 });
  await until(() => scene.ledger("shut").gate());
  await until(async () => (await scene.redis.llen(scene.bull("shut", "active"))) === 0);
  expect(await worker.close(5000)).toEqual({ complete: true, abandoned: 0, turns: [] });
  expect(await scene.ledger("shut").gate()).toMatchObject({ waiting: turns.length });
  await scene.check("shut");
});

test("a lane's concurrency and limits are what the last worker's settings say; one without settings leaves them", async () => {
  const agent = defineAgent("settings", () => "x");
  const queue = scene.queue("settings");
  const lane = { settings: { requestsPerMinute: 7 } };
  const set = async (): Promise<unknown[]> => [
    await queue.getGlobalConcurrency(),
    await scene.redis.hget(`{turnq:settings}/lane`, "requestsPerMinute"),
  ];
  await (await scene.worker([agent], { laneConcurrency: { settings: 3 }, laneLimits: lane })).close();
  expect(await set()).toEqual([3, "7"]);
  await (await scene.worker([agent])).close();
  expect(await set()).toEqual([3, "7"]);
  await (await scene.worker([agent], { laneConcurrency: {}, laneLimits: {} })).close();
  expect(await set()).toEqual([null, null]);
});

test("invariant 11: in a worker of several lanes a slot of a lane's own limit that comes free is taken at once", async () => {
  let [now, most] = [0, 0];
  const agent = defineAgent("narrow", async ({ attempt, text }) => {
    most = Math.max(most, ++now);
    await new Promise((resolve) => setImmediate(resolve));
    now -= 1;
    // A job that is moved to be delayed leaves its slot as well.
    if (attempt === 1 && Number(text) % 3 === 0) throw new Error("once more");
    return "done";
  });
  const other = defineAgent("narrows-neighbour", () => "done");
  await scene.publish(agent);
  await scene.worker([agent, other], { laneConcurrency: { narrow: 1 } });
  const turns = await Promise.all(
    Array.from({ length: 12 }, (_, i) =>
      scene.turnq.submit({ agent: "narrow", id: `narrow-${i}`, input: String(i), retry: { backoff: { delayMs: 1 } } }),
    ),
  );
  // BullMQ's loop looks by itself every 5 s: left to that, these 16 attempts would take more than a minute.
  expect((await results(turns)).every(({ ok }) => ok)).toBe(true);
  expect(most).toBe(1);
});
