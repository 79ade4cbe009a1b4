import { TurnqError, isTurnqError, messageOf } from "../domain/error.ts";
import { Failure, FailureCode, failure } from "../domain/failure.ts";
import type { TurnRecord } from "../domain/turn-record.ts";

/** The turn reached its hard deadline. `timeoutMs` is the limit, `iteration` the turn's number in its session. */
export class TurnTimeoutError extends TurnqError {
  override readonly name = "TurnTimeoutError";
  readonly timeoutMs: number;
  readonly iteration: number | undefined;

  constructor(timeoutMs: number, options: { readonly iteration?: number | undefined; readonly cause?: unknown } = {}) {
    super("turn_timeout", `the turn reached its deadline of ${timeoutMs} ms`, { cause: options.cause });
    this.timeoutMs = timeoutMs;
    this.iteration = options.iteration;
  }
}

/** The agent threw, its process died or its stream was garbled. The message is kept whole, however long. */
export class AgentCrashError extends TurnqError {
  override readonly name = "AgentCrashError";
  /** The partial record, where another process has built it. */
  readonly record: TurnRecord | undefined;

  constructor(message: string, options: { readonly cause?: unknown; readonly record?: TurnRecord | undefined } = {}) {
    super("agent_crash", message, { cause: options.cause });
    this.record = options.record;
  }
}

/**
 * What only a worker or its clock may say of an attempt: an agent that claimed it would be run for
 * ever, or blame the turn's deadline for a timeout of its own.
 */
const NOT_FOR_AGENTS: ReadonlySet<FailureCode> = new Set([
  "worker_lost",
  "interrupted",
  "cancelled",
  "expired",
  "timeout",
]);

/**
 * Anything thrown as a failure; never throws. An error that bears a `failure`, or a `code` that is
 * a failure's, keeps it (with its own `retryable`); all else, also null and strings, is `agent_crash`.
 */
export function normalizeThrown(thrown: unknown): Failure {
  try {
    return fromFields(thrown) ?? failure("agent_crash", messageOf(thrown), { cause: causeOf(thrown) });
  } catch {
    return failure("agent_crash", "something was thrown that cannot be read");
  }
}

/** Whether an attempt that was thrown out of with this failure was cut off: it did not end by itself. */
export function isCrash({ code }: Failure): boolean {
  return code === "agent_crash" || code === "out_of_memory";
}

/** A failure as an agent may say it: one that is the worker's alone becomes `agent_error`. */
export function agentFailure(said: Failure): Failure {
  if (!NOT_FOR_AGENTS.has(said.code))
    return failure(said.code, said.message, {
      retryable: said.retryable,
      retryAt: said.retryAt,
      cause: said.cause,
    });
  return failure("agent_error", said.message, { retryable: said.retryable, cause: said.cause });
}

function fromFields(thrown: unknown): Failure | undefined {
  if (typeof thrown !== "object" || thrown === null) return undefined;
  if ("failure" in thrown) {
    const said = Failure.safeParse(thrown.failure);
    if (said.success) return agentFailure(said.data);
  }
  if (!("code" in thrown)) return undefined;
  if (isTurnqError(thrown, "turn_timeout")) return failure("timeout", messageOf(thrown), { cause: causeOf(thrown) });
  const code = FailureCode.safeParse(thrown.code).data;
  if (code === undefined || NOT_FOR_AGENTS.has(code)) return undefined;
  const retryable = "retryable" in thrown && typeof thrown.retryable === "boolean" ? thrown.retryable : undefined;
  const retryAt = "retryAt" in thrown && typeof thrown.retryAt === "number" ? thrown.retryAt : undefined;
  return failure(code, messageOf(thrown), { retryable, retryAt, cause: causeOf(thrown) });
}

function causeOf(thrown: unknown): unknown {
  return typeof thrown === "object" && thrown !== null && "cause" in thrown ? thrown.cause : undefined;
}
