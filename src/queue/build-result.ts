import type { AttemptSummary, TurnResult, TurnStatus } from "../domain/turn-result.ts";
import type { ClosedAttempt, TurnFacts } from "../ledger/ledger.ts";
import type { Score } from "../domain/check.ts";
import type { StopReason } from "../domain/stop-reason.ts";
import { endedWell, type TurnRecord } from "../domain/turn-record.ts";
import { failed, succeeded, type Result } from "../domain/result.ts";
import { failure } from "../domain/failure.ts";
import { validHistory } from "../domain/message.ts";
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
  const attempts = [...ofGeneration(facts), summary];
  const answered = endedWell(record.status);
  const wasted = attempts.flatMap((attempt) =>
    answered && attempt === summary ? late(attempt) : [attempt.usage, ...late(attempt)],
  );
  const usage = sumUsage(attempts.flatMap((attempt) => [attempt.usage, ...late(attempt)]));
  const { request, cancel } = facts;
  const status: TurnStatus = cancel === undefined ? record.status : "cancelled";
  const why = cancel === undefined ? record.failure : failure("cancelled", cancel.reason);
  const stopped = cancel === undefined ? stopReason : (stopReason ?? "cancelled");
  return {
    v: 1,
    turn,
    generation: facts.generation,
    ...resultOf(record, cancel?.reason, usage),
    ...(record.truncated === undefined || (!answered && cancel === undefined)
      ? {}
      : { truncated: [...record.truncated] }),
    status,
    ...(why === undefined ? {} : { failure: why }),
    stepsUsed: attempts.reduce((sum, attempt) => sum + attempt.steps, 0),
    cancelled: status === "cancelled",
    budgetExhausted: status === "limit_reached",
    ...(stopped === undefined ? {} : { stopReason: stopped }),
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

/** The six fields. What a cancelled turn had said by then is kept, without making it a success. */
function resultOf(record: TurnRecord, cancelReason: string | undefined, usage: Usage): Result {
  const { agent, output, messages } = record;
  if (cancelReason !== undefined)
    return { ...structuredClone(failed(agent, cancelReason, usage, validHistory(messages))), output };
  return structuredClone(
    endedWell(record.status) ? succeeded(agent, output, usage, messages) : failed(agent, errorOf(record), usage, []),
  );
}

/** How a turn ends without another attempt: somebody cancelled it, or it was not started in time. */
export interface UnrunEnding {
  readonly facts: TurnFacts;
  readonly how: "cancelled" | "expired";
  readonly reason: string;
  readonly endedAt: number;
}

/** The TurnResult of a turn that nobody runs any more: attempts before it, if there were any, are in its sums. Pure. */
export function buildUnrunResult({ facts, how, reason, endedAt }: UnrunEnding): TurnResult {
  const { request, submittedAt } = facts;
  const attempts = ofGeneration(facts);
  const usage = sumUsage(attempts.flatMap((attempt) => [attempt.usage, ...late(attempt)]));
  const startedAt = facts.startedAt === 0 ? undefined : facts.startedAt;
  return {
    v: 1,
    turn: request.id,
    generation: facts.generation,
    ...structuredClone(failed(request.agent, reason, usage)),
    status: how,
    failure: failure(how, reason),
    stepsUsed: attempts.reduce((sum, attempt) => sum + attempt.steps, 0),
    cancelled: how === "cancelled",
    budgetExhausted: false,
    ...(how === "cancelled" ? { stopReason: "cancelled" } : {}),
    planSteps: [],
    ...(request.session === undefined ? {} : { session: request.session }),
    attempts: attempts.map(summaryOf),
    wastedUsage: { ...usage },
    score: null,
    ...(startedAt === undefined ? {} : { startedAt }),
    endedAt,
    durationMs: startedAt === undefined ? 0 : Math.max(0, endedAt - startedAt),
    queuedMs: Math.max(0, (startedAt ?? endedAt) - submittedAt),
  };
}

function ofGeneration({ attempts, firstAttempt }: TurnFacts): ClosedAttempt[] {
  return attempts.filter(({ attempt }) => attempt >= firstAttempt);
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
