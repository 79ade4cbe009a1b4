import { failure } from "../domain/failure.ts";
import { resolveLimits, resolveRetry } from "../domain/limits.ts";
import type { StoredRequest } from "../domain/turn-request.ts";
import type { TurnResult } from "../domain/turn-result.ts";
import { UNKNOWN_USAGE } from "../domain/usage.ts";
import type { ClosedAttempt, TurnRow } from "./ledger.ts";

/** Stands for a request that cannot be read; what the row knows of it is filled in where there is a row. */
export function unreadableRequest(turn: string, lane = "unreadable", row?: TurnRow): StoredRequest {
  const { batch, sample, epoch, session, agent = "unreadable", preview = "" } = row ?? {};
  return {
    v: 1,
    id: turn,
    agent,
    lane,
    input: preview,
    ...(session === undefined ? {} : { session }),
    ...(batch === undefined || sample === undefined || epoch === undefined
      ? {}
      : { batch: { id: batch, sample, epoch } }),
    limits: resolveLimits(),
    retry: resolveRetry(),
  };
}

/** Stands for the summary of a closed attempt that cannot be read: nothing is known of its spend. */
export function unreadableAttempt(attempt: number): ClosedAttempt {
  return {
    attempt,
    status: "lost",
    usage: { ...UNKNOWN_USAGE },
    worker: "unknown",
    startedAt: 0,
    endedAt: 0,
    crashed: true,
    steps: 0,
  };
}

/** Stands for a Result that cannot be read, in lists that must not end with it. */
export function unreadableResult(turn: string, generation: number, problem: string, row?: TurnRow): TurnResult {
  const usage = row?.usage ?? { ...UNKNOWN_USAGE };
  return {
    v: 1,
    turn,
    generation,
    agent: row?.agent ?? "unreadable",
    output: "",
    messages: [],
    usage,
    ok: false,
    error: problem,
    status: "failed",
    failure: failure("internal", problem),
    stepsUsed: 0,
    cancelled: false,
    budgetExhausted: false,
    planSteps: [],
    ...(row?.session === undefined ? {} : { session: row.session }),
    attempts: [],
    wastedUsage: usage,
    endedAt: row?.settledAt ?? 0,
    durationMs: 0,
    queuedMs: 0,
  };
}
