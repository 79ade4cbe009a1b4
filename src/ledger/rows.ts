import { costOfParts } from "../domain/cost.ts";
import { TurnState } from "../domain/lifecycle.ts";
import { Outcome, TurnStatus } from "../domain/turn-result.ts";
import { UNKNOWN_USAGE, USAGE_FIELDS, Usage } from "../domain/usage.ts";
import type { BatchCounts, CancelView, TurnRow } from "./ledger.ts";

function optionalNumber(value: string | undefined): number | undefined {
  return value === undefined || value === "" ? undefined : Number(value);
}

function optionalText(value: string | undefined): string | undefined {
  return value === undefined || value === "" ? undefined : value;
}

/** A row from its hash; undefined when there is no such turn. */
export function rowOf(lane: string, id: string, fields: Readonly<Record<string, string>>): TurnRow | undefined {
  const state = TurnState.safeParse(fields["state"]);
  if (!state.success) return undefined;
  return {
    id,
    lane,
    agent: fields["agent"] ?? "",
    state: state.data,
    generation: Number(fields["generation"]),
    attempt: Number(fields["attempt"]),
    seq: Number(fields["seq"] ?? 0),
    job: fields["job"] ?? "",
    hash: fields["hash"] ?? "",
    preview: fields["preview"] ?? "",
    session: optionalText(fields["session"]),
    batch: optionalText(fields["batch"]),
    sample: optionalText(fields["sample"]),
    epoch: optionalNumber(fields["epoch"]),
    worker: optionalText(fields["worker"]),
    outcome: Outcome.safeParse(fields["outcome"]).data,
    status: TurnStatus.safeParse(fields["status"]).data,
    usage: usageOf(fields["usage"]),
    submittedAt: Number(fields["submittedAt"]),
    startedAt: optionalNumber(fields["startedAt"]),
    settledAt: optionalNumber(fields["settledAt"]),
    passed: fields["scored"] === "1" ? fields["passed"] === "1" : undefined,
    nextAt: optionalNumber(fields["nextAt"]),
    priority: optionalNumber(fields["priority"]),
    expiresAt: optionalNumber(fields["expiresAt"]),
    cancel: cancelOf(fields),
  };
}

function cancelOf(fields: Readonly<Record<string, string>>): CancelView | undefined {
  const requestedAt = optionalNumber(fields["cancelAt"]);
  if (requestedAt === undefined) return undefined;
  const stoppingAt = optionalNumber(fields["stoppingAt"]);
  const killedAt = optionalNumber(fields["killedAt"]);
  return {
    reason: fields["cancelReason"] ?? "",
    by: optionalText(fields["cancelBy"]),
    phase: killedAt !== undefined ? "killed" : stoppingAt !== undefined ? "stopping" : "requested",
    requestedAt,
    stoppingAt,
    killedAt,
  };
}

/** One row whose usage cannot be read must not hide the others. */
function usageOf(json: string | undefined): Usage | undefined {
  if (json === undefined) return undefined;
  try {
    return Usage.parse(JSON.parse(json));
  } catch {
    return { ...UNKNOWN_USAGE };
  }
}

/** A batch's counts from its hash; undefined when the lane has no turn of it. */
export function batchCountsOf(fields: Readonly<Record<string, string>>): BatchCounts | undefined {
  const number = (field: string): number => Number(fields[field] ?? 0);
  const turns = number("turns");
  if (turns === 0) return undefined;
  const usage: Usage = {
    modelCalls: 0,
    toolCalls: 0,
    known: knownOf(number("known:reported"), number("known:partial"), number("known:unknown")),
  };
  for (const field of USAGE_FIELDS) if (fields[`u:${field}`] !== undefined) usage[field] = number(`u:${field}`);
  if (fields["u:costNanoUsd"] !== undefined) usage.costUsd = costOfParts(number("u:costNanoUsd"));
  return {
    turns,
    states: Object.fromEntries(
      TurnState.options.map((state) => [state, number(`s:${state}`)]),
    ) as BatchCounts["states"],
    outcomes: Object.fromEntries(
      Outcome.options.map((outcome) => [outcome, number(`o:${outcome}`)]),
    ) as BatchCounts["outcomes"],
    attempts: number("attempts"),
    crashedAttempts: number("crashed"),
    scored: number("scored"),
    passed: number("passed"),
    ...(number("retired") === 0 ? {} : { retired: number("retired") }),
    usage,
  };
}

function knownOf(reported: number, partial: number, unknown: number): Usage["known"] {
  if (partial === 0 && unknown === 0) return "reported";
  return partial === 0 && reported === 0 ? "unknown" : "partial";
}
