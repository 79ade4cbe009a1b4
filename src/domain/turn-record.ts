import { z } from "zod";
import { Failure } from "./failure.ts";
import { JsonObject } from "./json.ts";
import { Message } from "./message.ts";
import { Step } from "./step.ts";
import { cutText } from "./text.ts";
import { Input } from "./turn-request.ts";
import { Usage } from "./usage.ts";

/** How an attempt ended. */
export const AttemptStatus = z.enum([
  "completed",
  "stopped_early",
  "limit_reached",
  "failed",
  "cancelled",
  "timeout",
  "crashed",
  "interrupted",
  "lost",
]);
export type AttemptStatus = z.infer<typeof AttemptStatus>;

const PRECEDENCE: readonly AttemptStatus[] = [
  "lost",
  "interrupted",
  "timeout",
  "cancelled",
  "crashed",
  "failed",
  "stopped_early",
  "limit_reached",
  "completed",
];

/**
 * The status that holds when several do at once: timeout > cancelled > crashed > failed >
 * stopped_early > limit_reached > completed. `lost` and `interrupted` are the worker's own
 * verdicts on an attempt and stand above all.
 */
export function strongestStatus(first: AttemptStatus, ...others: AttemptStatus[]): AttemptStatus {
  return others.reduce((best, next) => (PRECEDENCE.indexOf(next) < PRECEDENCE.indexOf(best) ? next : best), first);
}

/** True when the attempt's output is the agent's own answer: it ended by itself and did not fail. */
export function endedWell(status: AttemptStatus): boolean {
  return status === "completed" || status === "stopped_early" || status === "limit_reached";
}

/** True when the attempt was cut off: what counts everywhere as a crashed attempt. */
export function isCrashed(status: AttemptStatus): boolean {
  return status === "crashed" || status === "timeout" || status === "lost";
}

/** One entry of an agent's plan. */
export const PlanStep = z.object({
  text: z.string(),
  status: z.enum(["pending", "in_progress", "completed", "cancelled"]),
});
export type PlanStep = z.infer<typeof PlanStep>;

/** Longest crash reason, in characters. */
export const CRASH_REASON_MAX = 200;

/** A crash reason as it is stored: at most 200 characters with one `…`; cutting twice changes nothing. */
export function crashReason(text: string): string {
  return cutText(text, CRASH_REASON_MAX);
}

/**
 * What was cut at `limits.maxTranscriptChars`, absent when nothing was: the `output`, so that it is not the whole answer,
 * and the `transcript`, which is all else that is kept of the attempt.
 */
export const Truncated = z.array(z.enum(["output", "transcript"])).min(1);
export type Truncated = z.infer<typeof Truncated>;

/** The account of one attempt. `crashed` means that it is partial; `status` says why. Instants are epoch ms. */
export const TurnRecord = z.object({
  v: z.literal(1),
  attempt: z.number().int().min(1),
  iteration: z.number().int().min(1),
  agent: z.string(),
  input: Input,
  output: z.string(),
  truncated: Truncated.optional(),
  messages: z.array(Message),
  steps: z.array(Step),
  plan: z.array(PlanStep),
  usage: Usage,
  model: z.string().optional(),
  status: AttemptStatus,
  crashed: z.boolean(),
  crashReason: z.string().max(CRASH_REASON_MAX).optional(),
  failure: Failure.optional(),
  startedAt: z.number(),
  endedAt: z.number(),
  durationMs: z.number().nonnegative(),
  environment: JsonObject,
});
export type TurnRecord = z.infer<typeof TurnRecord>;
