import { failure, type Failure, type FailureCode } from "../domain/failure.ts";
import type { Limits } from "../domain/limits.ts";
import { isLimit, type StopReason } from "../domain/stop-reason.ts";
import { crashReason, strongestStatus, type AttemptStatus } from "../domain/turn-record.ts";
import { agentFailure } from "./turn-errors.ts";

/** What a worker may ask of a running attempt. */
export type StopRequest = "cancelled" | "shutdown" | "lease_lost";
/** Why an attempt was killed. */
export type KillReason = StopRequest | "timeout" | "idle";

/** How an attempt ended, without what it did. */
export interface Ending {
  readonly status: AttemptStatus;
  readonly crashed: boolean;
  readonly crashReason?: string | undefined;
  readonly failure?: Failure | undefined;
  readonly stopReason?: StopReason | undefined;
}

interface Verdict {
  readonly status: AttemptStatus;
  readonly code: FailureCode;
  readonly text: string;
}

const REQUESTED: Readonly<Record<StopRequest, Verdict>> = {
  cancelled: { status: "cancelled", code: "cancelled", text: "turn cancelled" },
  shutdown: { status: "interrupted", code: "interrupted", text: "the worker was shut down" },
  lease_lost: { status: "lost", code: "worker_lost", text: "the worker lost its lease on the turn" },
};

/** How an attempt ended that stopped by itself, before its answer was whole, for this reason. */
export function endOfStop(reason: StopReason): Ending {
  if (reason === "cancelled" || reason === "shutdown" || reason === "lease_lost") {
    const { status, code, text } = REQUESTED[reason];
    return { status, crashed: false, failure: failure(code, text), stopReason: reason };
  }
  return { status: isLimit(reason) ? "limit_reached" : "stopped_early", crashed: false, stopReason: reason };
}

/** How an attempt ended that was killed for this reason. */
export function endOfKill(reason: KillReason, { timeoutMs, idleMs }: TimeLimits): Ending {
  if (reason === "timeout") {
    const text = `the turn reached its deadline of ${timeoutMs} ms`;
    return { ...timedOut("timeout", text), stopReason: "deadline" };
  }
  if (reason === "idle") return timedOut("idle_timeout", `the agent was silent for ${idleMs} ms`);
  const { status, code, text } = REQUESTED[reason];
  return { status, crashed: true, crashReason: text, failure: failure(code, text), stopReason: reason };
}

function timedOut(code: "timeout" | "idle_timeout", text: string): Ending {
  return { status: "timeout", crashed: true, crashReason: text, failure: failure(code, text) };
}

/** The limits that end an attempt by the clock. */
export type TimeLimits = Pick<Limits, "timeoutMs" | "idleMs">;

/** What is known of an attempt when it is over. */
export interface Facts {
  /** How the agent says that it ended; a throw is `crashed`, `timeout` or `failed` here. */
  readonly own: Ending;
  /** The agent threw. */
  readonly threw: boolean;
  /** The attempt was killed before the agent had ended. */
  readonly killed?: KillReason | undefined;
  /** What the worker asked for before the agent had ended. */
  readonly requested?: StopRequest | undefined;
  readonly limits: TimeLimits;
}

/**
 * The one place that decides how an attempt ended. A kill says it all. An attempt that ended by
 * itself after a cancel is `cancelled`, one whose lease is gone `lost`, whatever it answered; a
 * shutdown voids only what broke because of it: a whole answer and a failure of its own are kept.
 * What is the worker's to say, and was not asked for, is a failure of the agent: an `interrupted` or
 * `lost` of its own would have it run again for ever.
 */
export function verdictOf(facts: Facts): Ending {
  const { threw, killed, requested, limits } = facts;
  if (killed !== undefined) return endOfKill(killed, limits);
  const own = withinItsRights(facts.own, requested);
  if (requested === undefined) return own;
  if (requested === "shutdown" && !threw) return own;
  const asked = endOfStop(requested);
  if (strongestStatus(own.status, asked.status) === own.status) return own;
  if (!threw) return asked;
  return { ...asked, crashed: true, crashReason: crashReason(own.crashReason ?? own.failure?.message ?? "") };
}

/** Who may say that an attempt ended so: only whom the worker asked. */
const ASKED_BY: Partial<Readonly<Record<AttemptStatus, StopRequest>>> = {
  cancelled: "cancelled",
  interrupted: "shutdown",
  lost: "lease_lost",
};

function withinItsRights(own: Ending, requested: StopRequest | undefined): Ending {
  const asked = ASKED_BY[own.status];
  if (asked !== undefined && asked === requested) return own;
  if (asked !== undefined) {
    const text = own.failure?.message ?? own.status;
    const why = failure("agent_error", `the agent ended as ${own.status}, which nobody had asked for: ${text}`);
    return { status: "failed", crashed: own.crashed, crashReason: own.crashReason, failure: why };
  }
  // Told by its failure, too, what follows is decided.
  if (own.failure === undefined || own.status === "timeout") return own;
  const said = agentFailure(own.failure);
  return said.code === own.failure.code ? own : { ...own, failure: said };
}
