import type { Job } from "bullmq";
import type { ClosedAttempt } from "../ledger/ledger.ts";
import type { FailureCode } from "../domain/failure.ts";
import type { LaneLedger } from "../ledger/ledger.ts";
import type { StoredRequest } from "../domain/turn-request.ts";
import type { TurnRecord } from "../domain/turn-record.ts";
import type { TurnResult } from "../domain/turn-result.ts";
import { cutText } from "../domain/text.ts";
import { writeWithFinish } from "./backend.ts";
import { jobData, returnValue } from "./job-shape.ts";

const REFUSED: ReadonlySet<FailureCode> = new Set(["config", "auth", "invalid_request"]);
const REASON_CHARS = 1000;
const MAX_CRASHED = 20;

/** True when BullMQ is told `failed`: a crash, a loss, a timeout, a refused configuration. What the agent itself ended is `completed`. */
export function toldAsFailed(result: TurnResult): boolean {
  if (result.status === "crashed" || result.status === "lost" || result.status === "timeout") return true;
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
  throw jobFailure(result);
}

function jobFailure(result: TurnResult): Error {
  const error = new Error(cutText(result.error ?? result.status, REASON_CHARS));
  error.name = "TurnFailed";
  // The stack of this line says nothing of the agent.
  error.stack = `${error.name}: ${error.message}`;
  return error;
}

/** The job's data with the records of crashed attempts, from the ledger; undefined when none crashed. */
export async function dataWithCrashed(
  ledger: LaneLedger,
  request: StoredRequest,
  attempts: readonly ClosedAttempt[],
  current?: TurnRecord,
): Promise<object | undefined> {
  const crashed = attempts.filter((attempt) => attempt.crashed && attempt.attempt !== current?.attempt).slice(-MAX_CRASHED);
  if (crashed.length === 0 && current?.crashed !== true) return undefined;
  const stored = await Promise.all(crashed.map(({ attempt }) => ledger.attempt(request.id, attempt)));
  const records = stored.flatMap((attempt) => attempt?.record ?? []);
  return jobData(request, current?.crashed === true ? [...records, current] : records);
}
