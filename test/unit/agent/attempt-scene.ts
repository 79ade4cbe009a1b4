import { expect } from "vitest";
import type { LimitsInput } from "../../../src/domain/limits.ts";
import type { EventBody } from "../../../src/domain/turn-event.ts";
import { TurnRecord } from "../../../src/domain/turn-record.ts";
import type { AgentSpec } from "../../../src/agent/agent-spec.ts";
import { runAttempt, type AttemptOutcome, type AttemptOrder, type RunningAttempt } from "../../../src/agent/attempt.ts";
import { eventFaults } from "../../../src/agent/closed-events.ts";
import { defineAgent, specOf, type AgentFunction } from "../../../src/agent/define-agent.ts";
import { FakeClock, startOptions, storedRequest } from "../../agents.ts";

export interface Scene {
  readonly clock: FakeClock;
  readonly events: EventBody[];
  readonly running: RunningAttempt;
  /** Moves the clock on and gives the outcome, which is sound. */
  readonly after: (ms: number) => Promise<AttemptOutcome>;
}

/** Runs an attempt on a clock that the test moves. */
export function scene(spec: AgentSpec, limits: LimitsInput = {}, more: Partial<AttemptOrder> = {}): Scene {
  const clock = new FakeClock();
  const events: EventBody[] = [];
  const running = runAttempt({
    spec,
    request: storedRequest({ limits: { timeoutMs: 10_000, graceMs: 500, ...limits } }),
    attempt: 2,
    iteration: 4,
    generation: 1,
    history: [],
    before: { steps: 0, toolCalls: 0, tokens: 0, costUsd: 0 },
    mark: "",
    start: startOptions(),
    onEvent: (event) => void events.push(event),
    clock,
    ...more,
  });
  const after = async (ms: number): Promise<AttemptOutcome> => {
    await clock.advance(ms);
    const outcome = await running.done;
    TurnRecord.parse(outcome.record);
    expect(eventFaults(events)).toEqual([]);
    const end = events.at(-1);
    expect(end).toMatchObject({ type: "agent_end", status: outcome.record.status, usage: outcome.record.usage });
    expect(clock.pending).toBe(0);
    return outcome;
  };
  return { clock, events, running, after };
}

/** The spec of an agent from one function. */
export const fn = (run: AgentFunction): AgentSpec => specOf(defineAgent("fn", run));
export const never = new Promise<never>(() => undefined);
/** Longer than anything the runner waits for after a kill. */
export const BOUND_MS = 5_000;
