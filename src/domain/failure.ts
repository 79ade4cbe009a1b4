import { z } from "zod";
import { messageOf } from "./error.ts";
import { cutText } from "./text.ts";

export const FailureCode = z.enum([
  "agent_error",
  "agent_crash",
  "worker_lost",
  "timeout",
  "idle_timeout",
  "rate_limited",
  "overloaded",
  "quota_exhausted",
  "interrupted",
  "cancelled",
  "expired",
  "auth",
  "config",
  "invalid_request",
  "context_overflow",
  "refused",
  "output_too_large",
  "out_of_memory",
  "internal",
]);
export type FailureCode = z.infer<typeof FailureCode>;

/** A serialized error. `message` is at most 4000 characters. */
export interface Failure {
  readonly code: FailureCode;
  readonly message: string;
  readonly retryable: boolean;
  /**
   * Epoch ms by the clock of the machine that says it: when a provider that refuses may be asked
   * again. Only rate_limited, overloaded and quota_exhausted heed it, for at most a day.
   */
  readonly retryAt?: number | undefined;
  readonly cause?: Failure | { readonly message: string } | undefined;
}
const Cause: z.ZodType<{ readonly message: string }> = z.looseObject({ message: z.string() });
export const Failure: z.ZodType<Failure> = z.object({
  code: FailureCode,
  message: z.string(),
  retryable: z.boolean(),
  retryAt: z.number().optional(),
  cause: Cause.optional(),
});

/** What comes of a failure. */
export interface FailureRule {
  /** What it uses up: one of `maxAttempts`, one of `maxCrashes`, or nothing. */
  readonly spends: "attempt" | "crash" | "nothing";
  /** What follows: another attempt, the end, or the turn goes back and keeps its place. */
  readonly then:
    | "retry"
    | "retry_if_retryable"
    | "retry_on_timeout"
    | "retry_on_out_of_memory"
    | "gate"
    | "hand_back"
    | "end";
}
export type Spends = FailureRule["spends"];

/**
 * The one map of what each failure spends and what comes next (design 7). `docs/failures.md`
 * shows the same rows and a test holds the two together.
 */
export const FAILURE_POLICY: Readonly<Record<FailureCode, FailureRule>> = {
  agent_error: { spends: "attempt", then: "retry_if_retryable" },
  agent_crash: { spends: "attempt", then: "retry" },
  worker_lost: { spends: "crash", then: "retry" },
  timeout: { spends: "attempt", then: "retry_on_timeout" },
  idle_timeout: { spends: "attempt", then: "retry_on_timeout" },
  rate_limited: { spends: "nothing", then: "gate" },
  overloaded: { spends: "nothing", then: "gate" },
  quota_exhausted: { spends: "nothing", then: "gate" },
  interrupted: { spends: "nothing", then: "hand_back" },
  cancelled: { spends: "nothing", then: "end" },
  expired: { spends: "nothing", then: "end" },
  auth: { spends: "attempt", then: "end" },
  config: { spends: "attempt", then: "end" },
  invalid_request: { spends: "attempt", then: "end" },
  context_overflow: { spends: "attempt", then: "end" },
  refused: { spends: "attempt", then: "end" },
  output_too_large: { spends: "attempt", then: "end" },
  out_of_memory: { spends: "attempt", then: "retry_on_out_of_memory" },
  internal: { spends: "attempt", then: "retry" },
};

/** Longest stored failure message, in characters: agents dump whole logs into errors. */
export const FAILURE_MESSAGE_MAX = 4000;

/** Builds a failure; the message is cut. `retryable` is what the source of the failure says of it. */
export function failure(
  code: FailureCode,
  message: string,
  options: { retryable?: boolean | undefined; retryAt?: number | undefined; cause?: unknown } = {},
): Failure {
  const then = FAILURE_POLICY[code].then;
  const cause =
    options.cause === undefined ? undefined : { message: cutText(messageOf(options.cause), FAILURE_MESSAGE_MAX) };
  return Object.freeze({
    code,
    message: cutText(message, FAILURE_MESSAGE_MAX),
    retryable: options.retryable ?? (then !== "end" && then !== "retry_if_retryable"),
    ...(options.retryAt === undefined || !Number.isFinite(options.retryAt) ? {} : { retryAt: options.retryAt }),
    ...(cause === undefined ? {} : { cause }),
  });
}
