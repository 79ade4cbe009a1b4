import { FAILURE_POLICY, type Failure, type Spends } from "../domain/failure.ts";
import { backoffMs, type Retry } from "../domain/limits.ts";
import { endedWell, type TurnRecord } from "../domain/turn-record.ts";

/** What follows an attempt. */
export type Decision =
  | { readonly kind: "settle"; readonly spends: Spends }
  | { readonly kind: "retry"; readonly afterMs: number; readonly spends: Spends }
  | { readonly kind: "hand_back"; readonly spends: Spends }
  /** As `hand_back`, but the lane's gate is closed first. */
  | { readonly kind: "gate"; readonly spends: Spends };

export interface Budget {
  readonly retry: Retry;
  /** Attempts and crashes that the generation had spent before this attempt. */
  readonly spent: number;
  readonly crashes: number;
  /** Start of the generation's first attempt, epoch ms. */
  readonly startedAt: number;
}

/** A turn that has met nothing but such limits for so long ends with that failure, in ms. */
const GATED_MAX_MS = 24 * 3_600_000;

/** Decides by the failure's code (the one map in domain/failure.ts) what follows an attempt. Pure. */
export function decide(record: TurnRecord, budget: Budget, random: () => number): Decision {
  if (endedWell(record.status) || record.status === "cancelled") return { kind: "settle", spends: "nothing" };
  const failure = record.failure;
  if (failure === undefined) return { kind: "settle", spends: "attempt" };
  const { spends, then } = FAILURE_POLICY[failure.code];
  switch (then) {
    case "end":
      return { kind: "settle", spends };
    case "hand_back":
      return { kind: "hand_back", spends };
    case "gate":
      return gate(record, budget, spends);
    case "retry":
    case "retry_if_retryable":
    case "retry_on_timeout":
    case "retry_on_out_of_memory":
      return allowsAnother(failure, then, record, budget) ? again(spends, budget, random) : { kind: "settle", spends };
  }
}

/** The refusal spends nothing, but what came before it in the attempt was done and paid, and would be done again. */
function gate(record: TurnRecord, { startedAt, retry }: Budget, spends: Spends): Decision {
  const ends = record.endedAt - startedAt >= GATED_MAX_MS || mayNotRepeat(record, retry);
  return { kind: ends ? "settle" : "gate", spends };
}

/** True of an attempt that called a tool whose effects must not come twice. */
function mayNotRepeat({ usage }: TurnRecord, { afterToolCalls }: Retry): boolean {
  return afterToolCalls === "never" && usage.toolCalls > 0;
}

function allowsAnother(failure: Failure, then: string, record: TurnRecord, { retry, spent, crashes }: Budget): boolean {
  if (then === "retry_if_retryable" && !failure.retryable) return false;
  if (then === "retry_on_timeout" && !retry.onTimeout) return false;
  if (then === "retry_on_out_of_memory" && !retry.onOutOfMemory) return false;
  if (mayNotRepeat(record, retry)) return false;
  return FAILURE_POLICY[failure.code].spends === "crash"
    ? crashes + 1 < retry.maxCrashes
    : spent + 1 < retry.maxAttempts;
}

function again(spends: Spends, { retry, spent, crashes }: Budget, random: () => number): Decision {
  const count = spends === "crash" ? crashes + 1 : spent + 1;
  return { kind: "retry", afterMs: backoffMs(retry.backoff, count, random), spends };
}
