import assert from "node:assert/strict";
import { isTurnqError } from "../domain/error.ts";
import type { EventBody } from "../domain/turn-event.ts";
import { TurnRecord } from "../domain/turn-record.ts";
import type { Input } from "../domain/turn-request.ts";
import { USAGE_FIELDS, sumUsage } from "../domain/usage.ts";
import type { StopReason } from "../domain/stop-reason.ts";
import type { Agent, CommunicateOptions, StartOptions } from "./agent.ts";
import { eventFaults } from "./closed-events.ts";

/** What an agent is to do in a case of the contract. */
export const CONTRACT_SCENARIOS = {
  "clean turn": "Answers with some text and ends.",
  "crash before a tool call": "Says something, then crashes.",
  "crash inside a tool call": "Calls a tool and crashes before the tool has ended.",
  "crash after a tool call": "Calls a tool, which ends well, then crashes.",
  "timeout with the loop free": "Says something and calls a tool that never ends; does not block the event loop.",
  "timeout with a child that hangs": "Starts a program that never ends, and waits for it.",
  "cooperative stop at a boundary":
    "Calls a tool, ends the step, asks shouldStop, and goes on so for ever unless told.",
  "error after a deliberate stop": "As before; but when told it throws while it tears down.",
  "partial that cannot be built": "Crashes with the message `first error`, and its record cannot be built.",
  "a failure, then a clean turn": "Crashes in its first turn and answers in its second.",
} as const;
export type ContractScenario = keyof typeof CONTRACT_SCENARIOS;

/** An agent that plays a scenario. */
export interface ContractPlay {
  /** Not yet started. */
  readonly agent: Agent;
  readonly start: StartOptions;
  /** What it is told; `hello` unless given. */
  readonly input?: Input | undefined;
  /** What it is told in its second turn; `hello` unless given. */
  readonly nextInput?: Input | undefined;
  /** The deadline where one is to be reached, in ms; 1000 unless given. By then the agent must have done what the scenario says. */
  readonly timeoutMs?: number | undefined;
  /** True while a program that the agent started is alive. Asked after `kill` has resolved. */
  readonly isChildAlive?: (() => boolean | Promise<boolean>) | undefined;
  /** Called at the end of the case. */
  readonly dispose?: (() => void | Promise<void>) | undefined;
}

/** Says that this kind of agent cannot play a scenario, and why. */
export interface CannotPlay {
  readonly cannot: string;
}

/** Makes a new agent for a scenario. */
export type ContractFactory = (
  scenario: ContractScenario,
) => ContractPlay | CannotPlay | Promise<ContractPlay | CannotPlay>;

/** The words of a test runner that the suite needs: those of vitest, jest, mocha and node:test will do. */
export interface TestApi {
  readonly describe: (name: string, define: () => void) => unknown;
  /** The context is used for `skip(reason)`, where there is one. */
  readonly it: (name: string, run: (...context: unknown[]) => Promise<void>) => unknown;
}

/** No case of the suite should take so long: a hang then fails as a timeout. */
const SAFETY_MS = 15_000;

interface Told {
  readonly play: ContractPlay;
  readonly agent: Agent;
  readonly events: EventBody[];
  readonly communicate: (options?: CommunicateOptions, input?: Input) => Promise<TurnRecord>;
}

/**
 * The contract of an agent as a test suite: every agent of turnq passes it, and the author of an
 * agent can run it on theirs. It brings no test runner: give it the one that you use.
 *
 *     import { describe, it } from "vitest";
 *     agentContract((scenario) => myAgentFor(scenario), { describe, it });
 */
export function agentContract(factory: ContractFactory, api: TestApi, title = "the agent's contract"): void {
  api.describe(title, () => {
    for (const { name, scenario, run } of CASES) {
      api.it(name, async (...context) => {
        const play = await factory(scenario);
        if ("cannot" in play) return skip(context[0], `cannot play "${scenario}": ${play.cannot}`);
        await perform(play, run);
      });
    }
  });
}

async function perform(play: ContractPlay, run: (told: Told) => Promise<void>): Promise<void> {
  const { agent } = play;
  const events: EventBody[] = [];
  const onEvent = (event: EventBody): void => void events.push(event);
  const communicate: Told["communicate"] = (options = {}, input = play.input ?? "hello") =>
    agent.communicate(input, { timeoutMs: SAFETY_MS, onEvent, ...options });
  try {
    await run({ play, agent, events, communicate });
  } finally {
    await agent.kill();
    await play.dispose?.();
  }
}

function skip(context: unknown, reason: string): void {
  // vitest's context is a function, node:test's an object
  if ((typeof context !== "object" && typeof context !== "function") || context === null) return;
  const skipCase: unknown = Reflect.get(context, "skip");
  if (typeof skipCase === "function") skipCase.call(context, reason);
}

interface Case {
  readonly name: string;
  readonly scenario: ContractScenario;
  readonly run: (told: Told) => Promise<void>;
}

const CASES: readonly Case[] = [
  {
    name: "communicate before start is not_started and changes nothing",
    scenario: "clean turn",
    run: async ({ agent, events, communicate }) => {
      const before = agent.iteration;
      await assert.rejects(communicate(), (error) => isTurnqError(error, "not_started"));
      assert.equal(agent.pendingTurn, undefined);
      assert.deepEqual(events, []);
      agent.discardPendingTurn();
      assert.equal(agent.iteration, before);
    },
  },
  {
    name: "a clean turn leaves a whole record and closed events",
    scenario: "clean turn",
    run: async ({ play, agent, events, communicate }) => {
      await agent.start(play.start);
      const before = agent.iteration;
      const record = await communicate();
      checkRecord(record, play);
      checkEnd(events, record);
      assert.equal(record.status, "completed");
      assert.equal(record.crashed, false);
      assert.equal(record.failure, undefined);
      assert.notEqual(record.output, "");
      assert.equal(agent.pendingTurn, undefined);
      assert.equal(agent.iteration, before + 1);
      agent.discardPendingTurn();
      assert.equal(agent.iteration, before + 1, "there is nothing to discard after a clean turn");
      assert.notEqual(agent.getState(), "working");
      await agent.stop();
      assert.equal(agent.getState(), "finished");
      await agent.stop();
    },
  },
  ...crashCases(),
  {
    name: "discard called twice takes the iteration back once",
    scenario: "crash before a tool call",
    run: async ({ play, agent, communicate }) => {
      await agent.start(play.start);
      const before = agent.iteration;
      await assert.rejects(communicate());
      assert.equal(agent.iteration, before + 1);
      agent.discardPendingTurn();
      agent.discardPendingTurn();
      assert.equal(agent.iteration, before);
      assert.equal(agent.pendingTurn, undefined);
    },
  },
  {
    name: "a timeout with the loop free parks what there was",
    scenario: "timeout with the loop free",
    run: async ({ play, agent, events, communicate }) => {
      await agent.start(play.start);
      const timeoutMs = play.timeoutMs ?? 1_000;
      await assert.rejects(communicate({ timeoutMs }), (error) => isTurnqError(error, "turn_timeout"));
      const record = checkPending(agent, play, events);
      assert.equal(record.status, "timeout");
      assert.equal(record.failure?.code, "timeout");
      const calls = record.steps.flatMap((step) => step.toolCalls);
      assert.ok(calls.length > 0, "the tool call is in the record");
      assert.ok(calls.every((call) => call.status === "unresolved"));
      assert.equal(agent.getState(), "error");
    },
  },
  {
    name: "a timeout with a child that hangs leaves no process",
    scenario: "timeout with a child that hangs",
    run: async ({ play, agent, events, communicate }) => {
      await agent.start(play.start);
      const timeoutMs = play.timeoutMs ?? 1_000;
      await assert.rejects(communicate({ timeoutMs }), (error) => isTurnqError(error, "turn_timeout"));
      checkPending(agent, play, events);
      await agent.kill();
      assert.equal(await play.isChildAlive?.(), play.isChildAlive === undefined ? undefined : false);
    },
  },
  ...stopCases(),
  {
    name: "an abort from outside is a cancel and no throw",
    scenario: "timeout with the loop free",
    run: async ({ play, agent, events, communicate }) => {
      await agent.start(play.start);
      const controller = new AbortController();
      const onEvent = (event: EventBody): void => {
        events.push(event);
        if (event.type === "tool_start") setImmediate(() => controller.abort());
      };
      const record = await communicate({ onEvent, signal: controller.signal });
      checkRecord(record, play);
      checkEnd(events, record);
      assert.equal(record.status, "cancelled");
      assert.equal(record.crashed, true);
      assert.equal(record.crashReason, "turn cancelled");
      assert.equal(agent.pendingTurn, undefined);
    },
  },
  {
    name: "a partial that cannot be built does not hide the first error",
    scenario: "partial that cannot be built",
    run: async ({ play, agent, events, communicate }) => {
      await agent.start(play.start);
      const before = agent.iteration;
      await assert.rejects(communicate(), /first error/);
      assert.deepEqual(eventFaults(events), []);
      agent.discardPendingTurn();
      assert.equal(agent.iteration, before);
    },
  },
  {
    name: "a turn after a failure is clean and has the number of the failed one",
    scenario: "a failure, then a clean turn",
    run: async ({ play, agent, events, communicate }) => {
      await agent.start(play.start);
      await assert.rejects(communicate());
      const first = checkPending(agent, play, events);
      agent.discardPendingTurn();
      events.length = 0;
      const second = await communicate({}, play.nextInput ?? "hello");
      checkEnd(events, second);
      assert.equal(second.status, "completed");
      assert.equal(second.iteration, first.iteration);
      assert.equal(agent.pendingTurn, undefined);
      assert.notEqual(agent.getState(), "error");
    },
  },
  {
    name: "killSync at any time does no harm and ends the turn",
    scenario: "timeout with the loop free",
    run: async ({ play, agent, events, communicate }) => {
      agent.killSync();
      await agent.start(play.start);
      const onEvent = (event: EventBody): void => {
        events.push(event);
        if (event.type !== "tool_start") return;
        setImmediate(() => {
          agent.killSync();
          agent.killSync();
        });
      };
      await assert.rejects(communicate({ onEvent }), (error) => isTurnqError(error, "agent_crash"));
      checkPending(agent, play, events);
      agent.killSync();
    },
  },
];

function crashCases(): Case[] {
  const status = { before: undefined, inside: "unresolved", after: "ok" } as const;
  return (["before", "inside", "after"] as const).map((place) => ({
    name: `a crash ${place} a tool call parks what there was`,
    scenario: `crash ${place} a tool call`,
    run: async ({ play, agent, events, communicate }) => {
      await agent.start(play.start);
      await assert.rejects(communicate(), (error) => isTurnqError(error, "agent_crash"));
      const record = checkPending(agent, play, events);
      assert.equal(record.status, "crashed");
      assert.equal(record.failure?.code, "agent_crash");
      const calls = record.steps.flatMap((step) => step.toolCalls.map((call) => call.status));
      assert.deepEqual(calls, status[place] === undefined ? [] : [status[place]]);
      assert.equal(agent.getState(), "error");
    },
  }));
}

function stopCases(): Case[] {
  const stops = [
    ["cooperative stop at a boundary", "max_steps", "limit_reached"],
    ["cooperative stop at a boundary", "deadline", "stopped_early"],
    ["error after a deliberate stop", "cancelled", "cancelled"],
  ] as const satisfies readonly (readonly [ContractScenario, StopReason, TurnRecord["status"]])[];
  return stops.map(([scenario, reason, status]) => ({
    name: `${scenario}: ${reason} ends the turn as ${status}, and no crash`,
    scenario,
    run: async ({ play, agent, events, communicate }) => {
      await agent.start(play.start);
      let seen: number | undefined;
      const shouldStop = (): StopReason | undefined => {
        if (!events.some((event) => event.type === "tool_end")) return undefined;
        seen ??= events.length;
        return reason;
      };
      const record = await communicate({ shouldStop });
      checkRecord(record, play);
      checkEnd(events, record);
      assert.equal(record.status, status);
      assert.equal(record.crashed, false);
      assert.equal(agent.pendingTurn, undefined);
      const later = events.slice(seen ?? 0).map((event) => event.type);
      assert.ok(!later.includes("tool_start") && !later.includes("call_start"), "no more work after the answer");
    },
  }));
}

function checkPending(agent: Agent, play: ContractPlay, events: readonly EventBody[]): TurnRecord {
  const record = agent.pendingTurn;
  assert.ok(record !== undefined, "the partial record is parked before communicate throws");
  checkRecord(record, play);
  checkEnd(events, record);
  assert.equal(record.crashed, true);
  assert.ok((record.crashReason ?? "") !== "", "a crashed record says why");
  return record;
}

/** The record is valid, its messages can be sent to a provider and their usage adds up to its own. */
function checkRecord(record: TurnRecord, play: ContractPlay): void {
  TurnRecord.parse(record);
  const [first] = record.messages;
  assert.equal(first?.role, "user");
  assert.deepEqual(first.content, play.input ?? "hello");
  const asked = record.messages.flatMap((message) => message.toolCalls ?? []).map((call) => call.id);
  const answered = record.messages.flatMap((message) => message.toolCallId ?? []);
  assert.deepEqual(answered.toSorted(), asked.toSorted(), "every tool call has its result");
  const booked = sumUsage(record.messages.flatMap(({ usage }) => (usage === undefined ? [] : [usage])));
  for (const field of USAGE_FIELDS) assert.equal(booked[field] ?? 0, record.usage[field] ?? 0, `${field} adds up`);
}

/** The events are closed, and their last word is that of the record. */
function checkEnd(events: readonly EventBody[], record: TurnRecord): void {
  assert.deepEqual(eventFaults(events), []);
  const last = events.at(-1);
  assert.ok(last?.type === "agent_end");
  assert.equal(last.status, record.status);
  assert.equal(last.crashed, record.crashed);
  assert.equal(last.output, record.output);
  assert.deepEqual(last.usage, record.usage);
}
