import type { AgentSpec } from "../agent/agent-spec.ts";
import type { StartOptions } from "../agent/agent.ts";
import type { LaneLedger } from "../ledger/ledger.ts";
import type { Log } from "../telemetry/log.ts";
import type { Score } from "../domain/check.ts";
import type { Truncated } from "../domain/turn-record.ts";
import type { TurnStatus } from "../domain/turn-result.ts";
import type { StoredRequest } from "../domain/turn-request.ts";
import type { Usage } from "../domain/usage.ts";
import type { LeaseKeeper } from "./lease-keeper.ts";

/** What an attempt is known by, for its mark. */
export interface AttemptName {
  readonly lane: string;
  readonly turn: string;
  readonly attempt: number;
}

/** What the queue needs of processes on this machine. */
export interface ProcessPort {
  /** The mark that every process of this attempt bears. */
  mark(attempt: AttemptName): string;
  /** Kills what earlier attempts of this turn left on this machine; answers when nothing of it is alive. */
  sweepEarlier(attempt: AttemptName): Promise<void>;
}

/** Scores a turn's output against the request's checks; null when nothing was measured. */
export type Scorer = (
  request: StoredRequest,
  settled: { readonly status: TurnStatus; readonly output: string; readonly truncated?: Truncated | undefined },
) => Score | null;

/** An attempt of this worker that is not in the ledger as closed. */
export interface RunningTurn extends AttemptName {
  /** Its hard deadline, in ms of `performance.now()`: a clock that is set does not move it. */
  readonly deadlineMs: number;
  /** Asks it to stop because the worker does, and has its row say so. */
  readonly shutDown: () => void;
  /** Kills it because the worker's time is over. */
  readonly kill: () => void;
}

/** An attempt that has ended in this worker, or what it told of its usage later. */
export interface EndedHere extends AttemptName {
  readonly agent: string;
  /** The turn's batch. */
  readonly batch?: string | undefined;
  /** What it used; of one that told more later, what is beyond that. */
  readonly usage: Usage;
  /** True for the first attempt of its turn in this worker. */
  readonly first: boolean;
  /** True when it had ended before, and this is only what it used beyond what was told then. */
  readonly late: boolean;
}

/** What all lanes of one worker share. */
export interface WorkerContext {
  readonly workerId: string;
  readonly specs: ReadonlyMap<string, AgentSpec>;
  readonly processes: ProcessPort;
  readonly start: StartOptions;
  readonly score: Scorer;
  readonly log: Log;
  /** Attempts that run now or are not stored yet, for the shutdown. */
  readonly running: Set<RunningTurn>;
  /** Called when an attempt is among them, before any code of its agent runs. Must not throw. */
  readonly onStart?: (() => void) | undefined;
  /** Called when an attempt has ended here and is stored, whatever it ended in. Must not throw. */
  readonly onEnd?: ((ended: EndedHere) => void) | undefined;
  /** Aborted when the worker takes no more turns. */
  readonly closing: AbortSignal;
  /** Aborted at the limit of a shutdown: what has not been stored by then is given up. */
  readonly givenUp: AbortSignal;
}

/** One lane of a worker. */
export interface LaneContext {
  readonly worker: WorkerContext;
  readonly ledger: LaneLedger;
  readonly leases: LeaseKeeper;
}
