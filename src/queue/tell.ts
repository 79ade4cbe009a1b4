import type { Job } from "bullmq";
import type { ClosedAttempt } from "../ledger/ledger.ts";
import type { FailureCode } from "../domain/failure.ts";
import type { LaneLedger } from "../ledger/ledger.ts";
import type { StoredRequest } from "../domain/turn-request.ts";
import type { TurnRecord } from "../domain/turn-record.ts";
import type { TurnResult } from "../domain/turn-result.ts";
import { isTurnqError } from "../domain/error.ts";
import { cutText } from "../domain/text.ts";
import { writeWithFinish } from "./backend.ts";
import { jobData, MAX_CRASHED, returnValue, shownRecord } from "./job-shape.ts";

/** No end of the agent's own: what cannot run as it is configured, and a fault of ours. */
const REFUSED: ReadonlySet<FailureCode> = new Set(["config", "auth", "invalid_request", "internal"]);
const REASON_CHARS = 1000;

/**
 * True when BullMQ is told `failed`: a crash, a loss, a timeout, a refused configuration, a turn that
 * expired. What the agent itself ended, or a person, is `completed`.
 */
export function toldAsFailed(result: TurnResult): boolean {
  if (result.status === "crashed" || result.status === "lost" || result.status === "timeout") return true;
  if (result.status === "expired") return true;
  return result.failure !== undefined && REFUSED.has(result.failure.code);
}

/**
 * What the processor answers BullMQ with for a settled turn: the return value, or the throw of a
 * failed job. Either way the job's hash gets the TurnResult and the generation that was told.
 */
export function tell(job: Job, result: TurnResult, data: object | undefined): TurnResult {
  const value = returnValue(result);
  const fields = { told: String(result.generation), ...(data === undefined ? {} : { data: JSON.stringify(data) }) };
  if (!toldAsFailed(result)) {
    writeWithFinish(job, fields);
    return value;
  }
  writeWithFinish(job, { ...fields, returnvalue: JSON.stringify(value) });
  throw new TurnFailed(result);
}

/** What a failed job's processor throws: the reason that BullMQ's tools show. */
export class TurnFailed extends Error {
  override readonly name = "TurnFailed";

  constructor(result: TurnResult) {
    super(cutText(result.error ?? result.status, REASON_CHARS));
    // The stack of our own lines says nothing of the agent.
    this.stack = `${this.name}: ${this.message}`;
  }
}

/**
 * The job's data with the records of crashed attempts; undefined when none crashed. What `before`, the job's
 * data as it was delivered, shows of an attempt is taken from there: a record can be large, and read again after
 * each of many attempts the old ones would cost more than the new one. The others are read one at a time.
 */
export async function dataWithCrashed(
  ledger: LaneLedger,
  request: StoredRequest,
  attempts: readonly ClosedAttempt[],
  { current, before }: { readonly current?: TurnRecord; readonly before?: unknown } = {},
): Promise<object | undefined> {
  const crashed = attempts
    .filter((attempt) => attempt.crashed && attempt.attempt !== current?.attempt)
    .slice(-MAX_CRASHED);
  if (crashed.length === 0 && current?.crashed !== true) return undefined;
  const shown: object[] = [];
  for (const attempt of crashed) {
    const known = shownBefore(before, attempt);
    const record = known === undefined ? await storedRecord(ledger, request.id, attempt.attempt) : undefined;
    const made = known ?? (record === undefined ? undefined : shownRecord(record));
    if (made !== undefined) shown.push(made);
  }
  return jobData(request, current?.crashed === true ? [...shown, shownRecord(current)] : shown);
}

/** What the job's data shows of this very attempt: tools can write there, so it must agree with the ledger. */
function shownBefore(before: unknown, { attempt, startedAt, endedAt }: ClosedAttempt): object | undefined {
  const entries = isObject(before) && Array.isArray(before["crashed"]) ? before["crashed"] : [];
  return entries.find(
    (entry) =>
      isObject(entry) &&
      entry["attempt"] === attempt &&
      entry["startedAt"] === startedAt &&
      entry["endedAt"] === endedAt,
  );
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

/** A record that cannot be read is left out: what is told of a turn must not depend on it. */
async function storedRecord(ledger: LaneLedger, turn: string, attempt: number): Promise<TurnRecord | undefined> {
  try {
    return (await ledger.attempt(turn, attempt))?.record;
  } catch (error) {
    if (isTurnqError(error, "corrupt")) return undefined;
    throw error;
  }
}
