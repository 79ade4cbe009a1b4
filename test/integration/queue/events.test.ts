import { afterAll, beforeAll, expect, test } from "vitest";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { scriptedAgent } from "../../../src/agents/scripted/scripted-agent.ts";
import type { Action } from "../../../src/agents/scripted/script.ts";
import { failure } from "../../../src/domain/failure.ts";
import type { TurnEvent } from "../../../src/domain/turn-event.ts";
import { mergeDeltas } from "../../../src/queue/event-pipe.ts";
import { throwAwayRedis, type ThrowAwayRedis } from "../../redis.ts";
import { eventsOf, Gate, Scene, until } from "./scene.ts";

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

/** What is not closed in a turn's events, or not in its place. */
function unclosed(events: readonly TurnEvent[]): string[] {
  const attempts = [...new Set(events.map((event) => event.attempt))];
  const problems = attempts.flatMap((attempt) => unclosedAttempt(events.filter((event) => event.attempt === attempt)));
  const seqs = events.map((event) => event.seq);
  if (seqs.some((seq, i) => i > 0 && seq <= (seqs[i - 1] ?? 0))) problems.push("seq does not rise");
  if (events.at(-1)?.type !== "turn_completed") problems.push(`the last event is ${events.at(-1)?.type}`);
  if (countOf(events, "turn_completed") !== 1) problems.push("turn_completed is not there once");
  return problems;
}

const ENDED_WELL = ["completed", "stopped_early", "limit_reached", "cancelled"];

function unclosedAttempt(events: readonly TurnEvent[]): string[] {
  const end = events.find((event) => event.type === "agent_end");
  const well = end?.type === "agent_end" && ENDED_WELL.includes(end.status);
  const found = {
    first: events[0]?.type,
    starts: countOf(events, "agent_start"),
    ends: countOf(events, "agent_end"),
    openSteps: countOf(events, "step_start") - countOf(events, "step_end"),
    toolsEnded: toolsOf(events, "tool_end"),
    rolledBack: countOf(events, "rolled_back"),
  };
  const due = {
    first: "agent_start",
    starts: 1,
    ends: 1,
    openSteps: 0,
    toolsEnded: toolsOf(events, "tool_start"),
    rolledBack: well ? 0 : 1,
  };
  const [a, b] = [JSON.stringify(found), JSON.stringify(due)];
  return a === b ? [] : [`attempt ${events[0]?.attempt}: ${a} instead of ${b}`];
}

function countOf(events: readonly TurnEvent[], type: TurnEvent["type"]): number {
  return events.filter((event) => event.type === type).length;
}

function toolsOf(events: readonly TurnEvent[], type: "tool_start" | "tool_end"): string[] {
  return events.flatMap((event) => (event.type === type && "id" in event ? [event.id] : [])).toSorted();
}

const WORK: Action[] = [
  { call: true },
  { usage: { inputTokens: 1 } },
  { tool: "a", result: 1 },
  { tool: "b", open: true },
];

test.each<[string, Action[], string]>([
  ["an answer", [{ call: true }, { say: "ok" }], "completed"],
  ["an answer with a tool left open", [...WORK, { say: "ok" }], "completed"],
  ["a crash before anything", [{ crash: "boom" }], "crashed"],
  ["a crash with an open tool and step", [...WORK, { crash: "boom" }], "crashed"],
  ["a failure that the agent tells", [...WORK, { fail: failure("agent_error", "no") }], "failed"],
  ["a hang until the deadline", [...WORK, { hang: true }], "timeout"],
  ["a stop by a limit", [...WORK, { stop: "max_steps" }], "limit_reached"],
  ["a record that cannot be built", [...WORK, { breakRecord: "broken" }], "crashed"],
])("invariant 8: closed events after %s", async (what, script, status) => {
  const name = `ends-${what.replaceAll(" ", "-")}`;
  await scene.worker([scriptedAgent(name, { script })]);
  const turn = await scene.turnq.submit({
    agent: name,
    input: "x",
    limits: { timeoutMs: status === "timeout" ? 150 : 20_000, graceMs: 0 },
    retry: { maxAttempts: 2, backoff: { delayMs: 1 } },
  });
  const result = await turn.result({ waitMs: 20_000 });
  expect(result.status).toBe(status);
  const events = await eventsOf(turn);
  expect(unclosed(events)).toEqual([]);
  // Seqs have no gaps but those of joined deltas, of which these have none.
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, i) => i + 1));
  const orphans = events.filter((event) => event.type === "tool_end" && event.status === "unresolved");
  expect(orphans.length > 0).toBe(script.some((action) => "open" in action));
  await scene.check(name);
});

test("events() live: what was flushed is there while the agent still runs, from the start or after a seq", async () => {
  const gate = new Gate();
  const agent = defineAgent("live", async ({ attempt, emit }) => {
    emit.text("first ");
    void emit.call();
    if (attempt === 1) throw new Error("boom");
    await gate.opened;
    emit.text("last");
    return undefined;
  });
  await scene.worker([agent]);
  const turn = await scene.turnq.submit({ agent: "live", input: "x", retry: { backoff: { delayMs: 1 } } });
  const seen: TurnEvent[] = [];
  for await (const event of turn.events()) {
    seen.push(event);
    if (event.type === "call_start" && event.attempt === 2) gate.open();
  }
  expect(unclosed(seen)).toEqual([]);
  const attempts = seen.map(({ attempt }) => attempt);
  expect(attempts).toEqual(attempts.toSorted((a, b) => a - b));
  const middle = seen[3]?.seq ?? 0;
  expect(await eventsOf(turn, middle)).toEqual(seen.filter(({ seq }) => seq > middle));
  expect(await eventsOf(turn, seen.at(-1)?.seq)).toEqual([]);
});

test("events() after the streams are gone gives the record's events, deltas joined, each with its last seq", async () => {
  const agent = defineAgent("gone", async ({ attempt, emit }) => {
    for (let i = 0; i < 5; i++) {
      emit.text(`${i}`);
      // So that the deltas are flushed one by one.
      void emit.call();
      emit.text(".");
    }
    await until(async () => scene.ledger("gone").events(turn.id, attempt, 0), "the flush");
    if (attempt === 1) throw new Error("boom");
    return undefined;
  });
  await scene.worker([agent]);
  const turn = await scene.turnq.submit({ agent: "gone", input: "x", id: "g1", retry: { backoff: { delayMs: 1 } } });
  await turn.result({ waitMs: 20_000 });
  const live = await eventsOf(turn);
  const streams = await scene.redis.keys("*/ev:g1:*");
  expect(streams).toHaveLength(2);
  await scene.redis.del(...streams);
  const stored = await eventsOf(turn);
  expect(stored).toEqual(mergeDeltas(live));
  expect(unclosed(stored)).toEqual([]);
});

test("a signal ends events() of a turn that nobody runs", async () => {
  await scene.publish(defineAgent("nobody", () => "x"));
  const turn = await scene.turnq.submit({ agent: "nobody", input: "x" });
  const stop = new AbortController();
  const reading = (async () => {
    const seen: TurnEvent[] = [];
    for await (const event of turn.events({ signal: stop.signal })) seen.push(event);
    return seen;
  })();
  stop.abort();
  expect(await reading).toEqual([]);
});

test("result() with waitMs: WaitTimeoutError leaves the turn alone; D17: a settled turn answers at once, also with 0", async () => {
  const gate = new Gate();
  const agent = defineAgent("slow", async () => {
    await gate.opened;
    return "there";
  });
  await scene.worker([agent]);
  const turn = await scene.turnq.submit({ agent: "slow", input: "x", id: "w1" });
  await expect(turn.result({ waitMs: 1 })).rejects.toMatchObject({ name: "WaitTimeoutError", code: "wait_timeout" });
  await expect(turn.result({ waitMs: 0 })).rejects.toMatchObject({ code: "wait_timeout" });
  const waiting = [
    turn.result({ waitMs: 20_000 }),
    turn.result(),
    (await scene.turnq.turn("w1")).result({ waitMs: 20_000 }),
  ];
  gate.open();
  expect((await Promise.all(waiting)).map(({ output }) => output)).toEqual(["there", "there", "there"]);
  expect(await turn.result({ waitMs: 0 })).toMatchObject({ output: "there" });
  await expect(scene.turnq.turn("ghost")).rejects.toMatchObject({ code: "not_found" });
});

test("more events at the end than a close takes: whoever watches misses none", async () => {
  const agent = defineAgent("many", ({ emit }) => {
    void emit.call();
    for (let i = 0; i < 1700; i++) emit.toolEnd(emit.toolStart("t", { i }), i);
    return "done";
  });
  await scene.worker([agent]);
  const turn = await scene.turnq.submit({ agent: "many", input: "x" });
  await turn.result({ waitMs: 20_000 });
  const events = await eventsOf(turn);
  expect(unclosed(events)).toEqual([]);
  expect(events.filter(({ type }) => type === "tool_end")).toHaveLength(1700);
  const stream = await scene.ledger("many").events(turn.id, 1, 0);
  if (stream !== undefined) expect(events.map(({ seq }) => seq)).toEqual(events.map((_, i) => i + 1));
});
