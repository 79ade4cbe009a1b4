import type { AttemptSummary } from "../domain/turn-result.ts";
import type { Message } from "../domain/message.ts";
import type { Outcome, TurnResult, TurnStatus } from "../domain/turn-result.ts";
import type { LeaseSettings } from "./lease-settings.ts";
import type { FailureCode, Spends } from "../domain/failure.ts";
import type { StoredAttempt } from "./codec.ts";
import type { StoredRequest } from "../domain/turn-request.ts";
import type { TurnEvent } from "../domain/turn-event.ts";
import type { TurnState } from "../domain/lifecycle.ts";
import type { Usage } from "../domain/usage.ts";

/** How a worker's job of a turn reached it: what tells one delivery from another. */
export interface Delivery {
  readonly turn: string;
  readonly job: string;
  readonly token: string;
  readonly attemptsStarted: number;
}

/** What earlier attempts of a turn left, and the request: all that an attempt and its Result are built from. */
export interface TurnFacts {
  readonly request: StoredRequest;
  /** Why the stored request or the session cannot be read; `request` is then no more than the turn's id. */
  readonly unreadable?: string | undefined;
  readonly generation: number;
  /** Number of this generation's first attempt. */
  readonly firstAttempt: number;
  /** Attempts and crashes that this generation has spent. */
  readonly spent: number;
  readonly crashes: number;
  /** Seq of the last event of the attempts before. */
  readonly seq: number;
  /** Changes whenever something is booked that a Result must hold. */
  readonly rev: number;
  readonly submittedAt: number;
  /** Start of this generation's first attempt. */
  readonly startedAt: number;
  /** Set once somebody has cancelled the turn. */
  readonly cancel?: { readonly reason: string; readonly requestedAt: number } | undefined;
  /** Closed attempts over all generations, in order. */
  readonly attempts: readonly ClosedAttempt[];
}

export interface ClosedAttempt extends AttemptSummary {
  readonly crashed: boolean;
  /** Steps and tool calls, for limits that count over attempts. */
  readonly steps: number;
  /** Spend that a stale attempt reported after it was closed. */
  readonly late?: Usage | undefined;
}

/** An attempt that is open. */
export interface OpenedAttempt {
  readonly worker: string;
  readonly startedAt: number;
  readonly iteration: number;
}

/** The answer of begin. */
export type Begun =
  | { readonly kind: "stray" | "nolock" }
  | { readonly kind: "expired" }
  | { readonly kind: "settled"; readonly generation: number }
  | { readonly kind: "wait" | "gate"; readonly ms: number }
  | { readonly kind: "park"; readonly session: string }
  | { readonly kind: "lost"; readonly attempt: number; readonly announces: boolean }
  | {
      readonly kind: "run";
      readonly attempt: number;
      readonly facts: TurnFacts;
      readonly iteration: number;
      readonly history: readonly Message[];
    };

/** An attempt as it is closed. */
export interface AttemptClose {
  readonly turn: string;
  readonly attempt: number;
  /** Random per close: a resend is told from a rival by it. */
  readonly nonce: string;
  readonly stored: StoredAttempt;
  readonly summary: ClosedAttempt;
  readonly spends: Spends;
  /** The last events, for those who watch the stream; all of them are in `stored`. */
  readonly tail: readonly TurnEvent[];
  /** Of a record that was made from the stored events: the seq of the last one that it has. */
  readonly readTo?: number | undefined;
}

export interface AttemptSettle extends AttemptClose {
  readonly rev: number;
  readonly result: TurnResult;
  readonly outcome: Outcome;
  readonly status: TurnStatus;
  /** What the session's next turn will see of this one; undefined leaves the session as it was. */
  readonly sessionMessages?: readonly Message[] | undefined;
}

/** What a closed attempt spent `more`, beyond its own usage and the late usage `before` that stood beside it at `rev`. */
export interface LateSpend {
  readonly turn: string;
  readonly attempt: number;
  readonly rev: number;
  readonly before: Usage | undefined;
  readonly more: Usage;
}

/** What was read of an attempt's stream. */
export interface EventPage {
  /** Without what cannot be read. */
  readonly events: readonly TurnEvent[];
  /** The seq that was read to, that of the last event whether it can be read or not; where reading began when there is none. */
  readonly to: number;
}

/** A turn that is to end without another attempt, and its Result should none be open. */
export interface Unrun {
  readonly turn: string;
  readonly how: "cancelled" | "expired";
  /** Random per cancel: a resend is told from another one by it. */
  readonly nonce: string;
  readonly reason: string;
  /** Who wants it. */
  readonly by?: string | undefined;
  readonly rev: number;
  readonly result: TurnResult;
}

/** What became of it. */
export type Cancelling =
  /** `ended` by this call, `settled` before, `changed` since the Result was built, `requested` of the worker that runs it, `undue` to expire. */
  | { readonly kind: "missing" | "ended" | "settled" | "changed" | "requested" | "undue" }
  /** The attempt's worker is gone: close it, and the turn is settled. */
  | { readonly kind: "lost"; readonly attempt: number; readonly announces: boolean };

/** An open attempt, by name. */
export interface OpenAttempt {
  readonly turn: string;
  readonly attempt: number;
}

/** A cancel as lists show it. `stopping`: the worker has told the attempt; `killed`: it did not stop within its grace. */
export interface CancelView {
  readonly reason: string;
  readonly by?: string | undefined;
  readonly phase: "requested" | "stopping" | "killed";
  readonly requestedAt: number;
  readonly stoppingAt?: number | undefined;
  readonly killedAt?: number | undefined;
}

/** One row of a submit. */
export interface NewTurn {
  readonly request: StoredRequest;
  readonly hash: string;
}
export type Stored = "stored" | "duplicate" | "conflict";

/** A turn as lists show it. */
export interface TurnRow {
  readonly id: string;
  readonly lane: string;
  readonly agent: string;
  readonly state: TurnState;
  readonly generation: number;
  readonly attempt: number;
  /** Seq of the last event of the attempts that have ended; of a settled turn its very last. */
  readonly seq: number;
  readonly job: string;
  readonly hash: string;
  readonly preview: string;
  readonly session?: string | undefined;
  readonly batch?: string | undefined;
  readonly sample?: string | undefined;
  readonly epoch?: number | undefined;
  readonly worker?: string | undefined;
  readonly outcome?: Outcome | undefined;
  readonly status?: TurnStatus | undefined;
  readonly usage?: Usage | undefined;
  readonly submittedAt: number;
  readonly startedAt?: number | undefined;
  readonly settledAt?: number | undefined;
  /** Whether the output passed its checks; undefined while it is not settled, or nothing was measured. */
  readonly passed?: boolean | undefined;
  /** Start of the next attempt, in state delayed. */
  readonly nextAt?: number | undefined;
  /** As it was submitted; absent for 0. */
  readonly priority?: number | undefined;
  /** When it expires unless it is started before; absent while it is parked, and for a turn that was started. */
  readonly expiresAt?: number | undefined;
  readonly cancel?: CancelView | undefined;
}

/** A batch's counts in one lane, or over lanes. */
export interface BatchCounts {
  readonly turns: number;
  readonly states: Readonly<Record<TurnState, number>>;
  readonly outcomes: Readonly<Record<Outcome, number>>;
  readonly attempts: number;
  readonly crashedAttempts: number;
  readonly scored: number;
  readonly passed: number;
  /** Turns that retention has removed: their Results are gone, the counts hold them. */
  readonly retired?: number | undefined;
  readonly usage: Usage;
}

/** Turns of a lane by state. */
export interface LaneCounts {
  readonly states: Readonly<Record<TurnState, number>>;
  readonly oldestWaitingAt?: number | undefined;
}

/** A turn's place among those in its state. */
export interface StatePlace {
  readonly turn: string;
  /** When it came into the state, epoch ms. */
  readonly at: number;
}

/** A batch, and when its first turn was submitted to a lane, epoch ms. */
export interface BatchPlaced {
  readonly batch: string;
  readonly at: number;
}

/** Settled turns of a batch after a place; `next` is the place to go on from. */
export interface SettledPage {
  readonly turns: readonly string[];
  readonly next: number;
}

/** What a provider allows a lane, over all workers. */
export interface LaneLimits {
  /** Model calls begun in any minute. */
  readonly requestsPerMinute?: number | undefined;
  /** Tokens used in any minute. They are known only afterwards: attempts that run at once may go beyond it together. */
  readonly tokensPerMinute?: number | undefined;
}

/** An attempt that a provider refused for now. */
export interface GateHit extends OpenAttempt {
  /** Random per hit: a resend is told from another one by it. */
  readonly nonce: string;
  readonly reason: FailureCode;
  /** How long until the provider may be asked again, ms; absent when it did not say. */
  readonly afterMs?: number | undefined;
  /** From 0 to 1, for the jitter. */
  readonly random: number;
}

/** A lane's gate that is closed: nothing starts. */
export interface ClosedGate {
  /** When it opens, epoch ms by Redis's clock. */
  readonly until: number;
  /** The failure that closed it, or the lane's own limit. */
  readonly reason: FailureCode | keyof LaneLimits;
  /** Turns that wait for it. */
  readonly waiting: number;
}

/**
 * Everything stored about turns beside BullMQ, of one lane. Methods answer when Redis has; the
 * scripts behind them give the same state and answer when they are executed twice.
 */
export interface LaneLedger {
  readonly lane: string;
  readonly leases: LeaseSettings;
  begin(delivery: Delivery, worker: string, announces: boolean): Promise<Begun>;
  /** The facts anew, after settle answered `changed`. */
  facts(turn: string): Promise<TurnFacts>;
  /** Which of these attempts are no longer current, and which somebody has cancelled. */
  renew(
    open: readonly OpenAttempt[],
  ): Promise<{ readonly lost: readonly OpenAttempt[]; readonly cancelled: readonly OpenAttempt[] }>;
  /** False when the attempt is no longer current. */
  append(turn: string, attempt: number, events: readonly TurnEvent[]): Promise<boolean>;
  close(
    close: AttemptClose,
    next: { readonly state: "delayed" | "waiting"; readonly afterMs: number },
  ): Promise<"closed" | "stale" | "behind" | "cancelled">;
  settle(settle: AttemptSettle): Promise<"settled" | "stale" | "behind" | "changed">;
  /** Books late spend of a closed attempt. False when what it was built from is out of date, or the attempt is open. */
  bookLate(late: LateSpend): Promise<boolean>;
  wake(sessions: readonly string[]): Promise<void>;
  /** Settles a turn that nobody runs, or flags it for whoever does. */
  cancel(unrun: Unrun): Promise<Cancelling>;
  /** Closes the lane's gate: until the instant named, or for a time that doubles from wait to wait while nothing succeeds. */
  closeGate(hit: GateHit): Promise<void>;
  /** The gate, when it is closed. */
  gate(): Promise<ClosedGate | undefined>;
  /** Sets what the lane is limited to, for all workers; what is not named is not limited. */
  limit(limits: LaneLimits): Promise<void>;
  /** Notes how far the cancel of an open attempt has come, the first instant stands; or that it stops with its worker. */
  notePhase(turn: string, attempt: number, phase: "stopping" | "killed"): Promise<void>;

  row(turn: string): Promise<TurnRow | undefined>;
  rows(turns: readonly string[]): Promise<readonly (TurnRow | undefined)[]>;
  /** Throws `corrupt`. */
  request(turn: string): Promise<StoredRequest | undefined>;
  /** A request that cannot be read is made of what its row knows. */
  requests(turns: readonly string[]): Promise<readonly (StoredRequest | undefined)[]>;
  /** Throws `corrupt`. */
  result(turn: string, generation: number): Promise<TurnResult | undefined>;
  /** A Result that cannot be read is `ok: false` and says so. */
  results(
    turns: readonly { readonly turn: string; readonly generation: number }[],
  ): Promise<readonly (TurnResult | undefined)[]>;
  /** Throws `corrupt`. */
  attempt(turn: string, attempt: number): Promise<StoredAttempt | undefined>;
  /** Who began an attempt that is open, when, and as which iteration of its session; undefined when nobody did or it cannot be read. */
  opened(turn: string, attempt: number): Promise<OpenedAttempt | undefined>;
  /** At most 1000 events in the stream of an attempt after a seq; undefined when there is no stream. */
  events(turn: string, attempt: number, after: number): Promise<EventPage | undefined>;
  batchCounts(batch: string): Promise<BatchCounts | undefined>;
  batchTurns(batch: string, after: number, limit: number): Promise<SettledPage>;
  batchSettled(batch: string, after: number, limit: number): Promise<SettledPage>;
  /** How many turns there are in each state, and since when the longest waiting one waits, epoch ms. */
  laneCounts(): Promise<LaneCounts>;
  /** Turns in a state, the last to come into it first, behind a turn of an earlier answer. */
  stateTurns(state: TurnState, behind: StatePlace | undefined, limit: number): Promise<readonly StatePlace[]>;
  /** Batches of this lane, the newest first. */
  batches(limit: number): Promise<readonly BatchPlaced[]>;
  /** Open attempts whose lease has ended: turns of workers that are away. */
  overdue(): Promise<number>;
  /** The turns of at most `limit` of them. */
  overdueTurns(limit: number): Promise<readonly string[]>;
  /** Some turns whose time to be started is over: at most `limit`, the longest due first. */
  expired(limit: number): Promise<readonly string[]>;
}
