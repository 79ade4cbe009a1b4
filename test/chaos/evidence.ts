import type { Message } from "../../src/domain/message.ts";
import type { TurnEvent } from "../../src/domain/turn-event.ts";
import type { TurnResult } from "../../src/domain/turn-result.ts";
import type { ClosedAttempt } from "../../src/ledger/ledger.ts";
import type { TruthLine } from "./truth.ts";

/** A Result as it lies in Redis: its digest tells whether it has changed. */
export interface StoredResult {
  readonly generation: number;
  readonly digest: string;
}

/** All that is known of a turn at the end. */
export interface TurnEvidence {
  readonly id: string;
  readonly lane: string;
  readonly session?: string | undefined;
  /** Undefined: nothing of it is stored. */
  readonly state?: string | undefined;
  readonly generation: number;
  /** How often it was asked to be retried. */
  readonly retries: number;
  readonly attempts: readonly ClosedAttempt[];
  readonly results: readonly (StoredResult & { readonly result: TurnResult })[];
  /** Results as they were seen while the run went on. `settledAt`: epoch ms, by Redis's clock. */
  readonly seen: readonly (StoredResult & { readonly settledAt: number })[];
  /** Of its closed attempts, as their records hold them. */
  readonly events: readonly TurnEvent[];
}

export interface SessionEvidence {
  readonly id: string;
  readonly lane: string;
  /** Its turns as they were accepted. */
  readonly turns: readonly string[];
  /** What is stored of it. */
  readonly iteration: number;
  readonly messages: readonly (readonly Message[])[];
}

export interface LaneEvidence {
  readonly lane: string;
  /** Jobs that BullMQ holds as active, and those that it has locks of. */
  readonly active: readonly string[];
  readonly locks: readonly string[];
  /** Attempts with a lease. */
  readonly leases: readonly string[];
  /** What does not agree with itself, see check-lane.ts. */
  readonly problems: readonly string[];
}

/** Turns that were put in at once to count the slots, and how many of them ran at once. */
export interface SlotCount {
  readonly what: string;
  readonly due: number;
  readonly got: number;
}

/** A process that should not be there. */
export interface Orphan {
  readonly pid: number;
  readonly mark: string;
  readonly command: string;
}

/** What a run left, at its end. */
export interface Evidence {
  readonly turns: readonly TurnEvidence[];
  readonly sessions: readonly SessionEvidence[];
  readonly lanes: readonly LaneEvidence[];
  readonly truth: readonly TruthLine[];
  readonly slots: readonly SlotCount[];
  /** Attempts that workers say they run, though no turn is left. */
  readonly running: number;
  readonly orphans: readonly Orphan[];
  /** What workers did that they must not: hang at their shutdown, end by themselves. */
  readonly workerFaults: readonly string[];
}
