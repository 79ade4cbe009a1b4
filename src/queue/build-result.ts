import type { AttemptSummary, TurnResult, TurnStatus } from "../domain/turn-result.ts";
import type { ClosedAttempt, TurnFacts } from "../ledger/ledger.ts";
import type { Score } from "../domain/check.ts";
import type { StopReason } from "../domain/stop-reason.ts";
import { endedWell, type TurnRecord } from "../domain/turn-record.ts";
import { failed, succeeded } from "../domain/result.ts";
import { sumUsage, type Usage } from "../domain/usage.ts";

export interface Ending {
  readonly turn: string;
  readonly facts: TurnFacts;
  readonly record: TurnRecord;
  readonly summary: ClosedAttempt;
  readonly stopReason?: StopReason | undefined;
  /** Null when nothing was measured. */
  readonly score: Score | null;
}

/** The TurnResult of a turn that ends with this attempt. Pure. */
export function buildResult(ending: Ending): TurnResult {
  const { turn, facts, record, summary, stopReason, score } = ending;
  const attempts = [...facts.attempts.filter((attempt) => attempt.attempt >= facts.firstAttempt), summary];
  const ok = endedWell(record.status);
  const wasted = attempts.flatMap((attempt) =>
    ok && attempt === summary ? late(attempt) : [attempt.usage, ...late(attempt)],
  );
  const usage = sumUsage(attempts.flatMap((attempt) => [attempt.usage, ...late(attempt)]));
  const result = ok
    ? succeeded(record.agent, record.output, usage, record.messages)
    : failed(record.agent, errorOf(record), usage, []);
  const status: TurnStatus = record.status;
  const { request } = facts;
  return {
    v: 1,
    turn,
    generation: facts.generation,
    ...structuredClone(result),
    status,
    ...(record.failure === undefined ? {} : { failure: record.failure }),
    stepsUsed: attempts.reduce((sum, attempt) => sum + attempt.steps, 0),
    cancelled: status === "cancelled",
    budgetExhausted: status === "limit_reached",
    ...(stopReason === undefined ? {} : { stopReason }),
    planSteps: [...record.plan],
    ...(request.session === undefined ? {} : { session: request.session, iteration: record.iteration }),
    attempts: attempts.map(summaryOf),
    wastedUsage: sumUsage(wasted),
    score,
    startedAt: facts.startedAt,
    endedAt: record.endedAt,
    durationMs: Math.max(0, record.endedAt - facts.startedAt),
    queuedMs: Math.max(0, facts.startedAt - facts.submittedAt),
  };
}

function late(attempt: ClosedAttempt): Usage[] {
  return attempt.late === undefined ? [] : [attempt.late];
}

/** What the Result lists of an attempt; late spend is part of the attempt's usage there. */
function summaryOf(attempt: ClosedAttempt): AttemptSummary {
  return {
    attempt: attempt.attempt,
    status: attempt.status,
    usage: sumUsage([attempt.usage, ...late(attempt)]),
    worker: attempt.worker,
    startedAt: attempt.startedAt,
    endedAt: attempt.endedAt,
    ...(attempt.failure === undefined ? {} : { failure: attempt.failure }),
  };
}

function errorOf(record: TurnRecord): string {
  return record.failure?.message ?? record.crashReason ?? `the attempt ended as ${record.status}`;
}

/** The summary of an attempt that a record is the account of. */
export function closedAttempt(record: TurnRecord, worker: string): ClosedAttempt {
  return {
    attempt: record.attempt,
    status: record.status,
    usage: record.usage,
    worker,
    startedAt: record.startedAt,
    endedAt: record.endedAt,
    crashed: record.crashed,
    steps: record.steps.length,
    ...(record.failure === undefined ? {} : { failure: record.failure }),
  };
}
