import { z } from "zod";
import { Score } from "./check.ts";
import { Failure } from "./failure.ts";
import { JsonObject } from "./json.ts";
import { Message } from "./message.ts";
import { StopReason } from "./stop-reason.ts";
import { AttemptStatus, PlanStep, Truncated, endedWell } from "./turn-record.ts";
import { Usage } from "./usage.ts";

/** The `status` of a settled turn: the last attempt's, or `cancelled` or `expired`. */
export const TurnStatus = z.enum([...AttemptStatus.options, "expired"]);
export type TurnStatus = z.infer<typeof TurnStatus>;

/** One attempt as the Result lists it. */
export const AttemptSummary = z.object({
  attempt: z.number().int().min(1),
  status: AttemptStatus,
  usage: Usage,
  worker: z.string(),
  startedAt: z.number(),
  endedAt: z.number(),
  failure: Failure.optional(),
});
export type AttemptSummary = z.infer<typeof AttemptSummary>;

/** What the queue stores and returns for a settled turn: the Result and the turn's facts. Instants are epoch ms. */
export const TurnResult = z
  .object({
    v: z.literal(1),
    turn: z.string(),
    generation: z.number().int().min(1),
    agent: z.string(),
    output: z.string(),
    /** What of the attempt that answered was cut at its limit. */
    truncated: Truncated.optional(),
    messages: z.array(Message),
    /** Set on a job's return value only, where it would be too long: what is cut here and whole in the ledger. */
    elsewhere: z.object({ messages: z.number().int().optional(), outputChars: z.number().int().optional() }).optional(),
    usage: Usage,
    ok: z.boolean(),
    error: z.string().optional(),
    status: TurnStatus,
    failure: Failure.optional(),
    stepsUsed: z.number().int().nonnegative(),
    cancelled: z.boolean(),
    budgetExhausted: z.boolean(),
    stopReason: StopReason.optional(),
    planSteps: z.array(PlanStep),
    session: z.string().optional(),
    iteration: z.number().int().optional(),
    attempts: z.array(AttemptSummary),
    wastedUsage: Usage,
    score: Score.nullable().optional(),
    artifacts: JsonObject.optional(),
    startedAt: z.number().optional(),
    endedAt: z.number(),
    durationMs: z.number().nonnegative(),
    queuedMs: z.number().nonnegative(),
  })
  .refine((result) => result.ok === (result.error === undefined), "`error` is set if and only if `ok` is false");
export type TurnResult = z.infer<typeof TurnResult>;

/** A settled turn is exactly one of these. */
export const Outcome = z.enum(["ok", "failed", "cancelled", "expired"]);
export type Outcome = z.infer<typeof Outcome>;

/** Which of the four a status is. */
export function outcomeOf(status: TurnStatus): Outcome {
  if (status === "cancelled" || status === "expired") return status;
  return endedWell(status) ? "ok" : "failed";
}
