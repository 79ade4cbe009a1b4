import type { Redis } from "ioredis";
import type { AgentSpec } from "../agent/agent-spec.ts";
import type { StartOptions } from "../agent/agent.ts";
import type { Clock } from "../agent/deadline.ts";
import type { LaneLimits } from "../ledger/ledger.ts";
import type { LeaseSettings } from "../ledger/lease-settings.ts";
import type { Log } from "../telemetry/log.ts";
import type { Directory } from "./directory.ts";
import type { LaneSet } from "./lane-set.ts";
import type { Retention } from "./retention.ts";
import type { ProcessPort, Scorer, WorkerContext } from "./worker-context.ts";

/** How BullMQ keeps a worker's jobs, as far as tests change it. */
export interface BullLocks {
  /** How long BullMQ's lock holds, in ms. */
  readonly lockDuration: number;
  /** How often BullMQ looks for jobs whose lock has ended, in ms. */
  readonly stalledInterval: number;
  /** How long BullMQ waits for a job that nothing tells of, in s. */
  readonly drainDelay: number;
}

export interface TurnWorkerOptions {
  /** A connection that never gives up (`maxRetriesPerRequest: null`); the worker does not own it. */
  readonly redis: Redis;
  readonly workerId: string;
  /** The agents to run; they are ready. */
  readonly specs: readonly AgentSpec[];
  /** Agents that it does without for now, each with why: they are tried again. */
  readonly missing?: ReadonlyMap<AgentSpec, string> | undefined;
  /** Ends what the specs keep warm, as far as no other worker uses them; called once, at the close. */
  readonly closeSpecs?: (() => Promise<void>) | undefined;
  /** Lanes to take turns from besides the agents' own: a request may name another one. */
  readonly moreLanes?: readonly string[] | undefined;
  /** Turns at once, over all lanes. */
  readonly concurrency: number;
  /** Turns at once over all workers, by lane. Where it is given a lane that it does not name has no such limit any more. */
  readonly laneConcurrency?: Readonly<Record<string, number>> | undefined;
  /** What providers allow over all workers, by lane. Where it is given a lane that it does not name has no limits any more. */
  readonly laneLimits?: Readonly<Record<string, LaneLimits>> | undefined;
  readonly processes: ProcessPort;
  readonly start: StartOptions;
  readonly score: Scorer;
  readonly directory: Directory;
  readonly lanes: LaneSet;
  readonly log: Log;
  /** Called when an attempt starts, before any code of its agent runs, with the earliest hard deadline of all, epoch ms. Must not throw. */
  readonly onStart?: ((deadlineAt: number | undefined) => void) | undefined;
  /** Called when an attempt has ended here and is stored, and again for usage that it tells later. Must not throw. */
  readonly onEnd?: WorkerContext["onEnd"];
  /** How long settled turns are kept. */
  readonly retention?: Retention | undefined;
  /** How often this worker looks after its lanes, in ms; 10 s unless given. */
  readonly upkeepEveryMs?: number | undefined;
  /** Tests only: all workers of a lane must agree. */
  readonly leases?: LeaseSettings | undefined;
  /** Tests only: so that a dead worker's job comes again sooner. */
  readonly locks?: Partial<BullLocks> | undefined;
  /** Tests only: the clock by which what is missing is tried again. */
  readonly clock?: Clock | undefined;
}
