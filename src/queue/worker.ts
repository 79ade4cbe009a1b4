import { Worker } from "bullmq";
import type { Redis } from "ioredis";
import type { AgentSpec } from "../agent/agent-spec.ts";
import type { StartOptions } from "../agent/agent.ts";
import { afterMs, systemClock, TIME_OVER, within } from "../agent/deadline.ts";
import { messageOf } from "../domain/error.ts";
import { laneTag } from "../ledger/keys.ts";
import type { LaneLimits } from "../ledger/ledger.ts";
import type { LeaseSettings } from "../ledger/lease-settings.ts";
import { redisLedger } from "../ledger/redis-ledger.ts";
import { effect } from "../pause/effect.ts";
import type { Log } from "../telemetry/log.ts";
import { finishingBackend } from "./backend.ts";
import { CancelWatch } from "./cancel-watch.ts";
import { Deliveries } from "./deliveries.ts";
import type { Directory } from "./directory.ts";
import type { Lane, LaneSet } from "./lane-set.ts";
import { LaneLimit } from "./lane-limit.ts";
import { LeaseKeeper } from "./lease-keeper.ts";
import { Reconciler } from "./reconciler.ts";
import type { Retention } from "./retention.ts";
import { reportLag } from "./loop-lag.ts";
import { readinessOf, type Readiness } from "./readiness.ts";
import { Slots, type Release } from "./slots.ts";
import { SlottedLane } from "./slotted-backend.ts";
import { WorkerRegistry } from "./worker-registry.ts";
import type { ProcessPort, RunningTurn, Scorer, WorkerContext } from "./worker-context.ts";

/** BullMQ's side of a worker: a lock only says that someone should look, so it is short and a stall never fails a job. */
const BULL = {
  lockDuration: 8000,
  stalledInterval: 3000,
  maxStalledCount: 1_000_000_000,
  runRetryDelay: 1000,
  drainDelay: 5,
  // So high only that BullMQ looks at its limiter's key, which the ledger's gate sets.
  limiter: { max: 1e15, duration: 60_000 },
  // A worker that is closed while the gate is shut waits for no longer than this.
  maximumRateLimitDelay: 500,
};
/** How many error lines of BullMQ's loops are logged in a second: a full Redis makes thousands. */
const ERROR_LOG_EVERY_MS = 1000;
/** When in the time of a shutdown the attempts are killed that did not stop by themselves. */
const KILL_AT_SHARE = 0.6;

export interface TurnWorkerOptions {
  /** A connection that never gives up (`maxRetriesPerRequest: null`); the worker does not own it. */
  readonly redis: Redis;
  readonly workerId: string;
  readonly specs: readonly AgentSpec[];
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
  /** Tests only: BullMQ's lock (ms) and its look for jobs that nothing tells of (s), so that a dead worker's job comes again sooner. */
  readonly locks?: Partial<Pick<typeof BULL, "lockDuration" | "stalledInterval" | "drainDelay">> | undefined;
}

/** What a shutdown left. */
export interface CloseReport {
  /** False when the limit came first. */
  readonly complete: boolean;
  /** Attempts that were not stored as handed back at the limit: another worker will find them lost. */
  readonly abandoned: number;
  /** Their turns, at most 20. */
  readonly turns: readonly string[];
}

/** How many turns a close report names. */
export const TURNS_NAMED = 20;

/** How far a shutdown has come, and how many attempts still run: first they are asked to stop, then they are killed. */
export interface ClosePhase {
  readonly phase: "stopping" | "killed";
  readonly running: number;
}

export interface CloseOptions {
  /** When it is over, whatever happens, in ms. */
  readonly limitMs: number;
  /** Called when a phase begins in which attempts run. Must not throw. */
  readonly onPhase?: ((phase: ClosePhase) => void) | undefined;
}

/** How BullMQ's side of one lane comes by its jobs. */
interface Fetching {
  readonly backend: typeof finishingBackend;
  readonly claim: (token: string) => Promise<Release | undefined>;
}

interface LaneWorker {
  readonly lane: string;
  /** Its loop ended though nobody closed it. */
  ended: boolean;
  readonly bull: Worker;
  readonly leases: LeaseKeeper;
  readonly reconciler: Reconciler;
}

/** Takes turns of its agents' lanes and runs them. Start and close may be called more than once. */
export class TurnWorker {
  readonly #options: TurnWorkerOptions;
  readonly #closing = new AbortController();
  readonly #givenUp = new AbortController();
  readonly #running = new Set<RunningTurn>();
  readonly #slots: Slots;
  #lanes: LaneWorker[] = [];
  #cancels: CancelWatch | undefined;
  #endLag: () => void = () => undefined;
  /** Takes it off the list of workers. */
  #leave: () => Promise<void> = () => Promise.resolve();
  #started: Promise<void> | undefined;
  #closed: Promise<CloseReport> | undefined;

  constructor(options: TurnWorkerOptions) {
    this.#options = options;
    this.#slots = new Slots(options.concurrency);
  }

  /** Attempts that run now. */
  get running(): number {
    return this.#running.size;
  }

  /** Whether it takes turns now, from what was observed; asks nothing of Redis. */
  readiness(): Readiness {
    if (this.#closing.signal.aborted)
      return { ready: false, reason: "closing", message: "the worker takes no more turns" };
    if (this.#lanes.length === 0) return { ready: false, reason: "not_started", message: "no lane is open yet" };
    return readinessOf(this.#lanes);
  }

  /** The earliest hard deadline of the attempts that run, epoch ms. */
  get deadlineAt(): number | undefined {
    let first: number | undefined;
    for (const { deadlineMs } of this.#running) if (first === undefined || deadlineMs < first) first = deadlineMs;
    return first === undefined ? undefined : Date.now() + (first - performance.now());
  }

  /** Takes turns from now on. When it throws nothing was begun, and it may be called again. */
  async start(): Promise<void> {
    this.#started ??= this.#start();
    try {
      await this.#started;
    } catch (error) {
      this.#started = undefined;
      throw error;
    }
  }

  async #start(): Promise<void> {
    const { specs, directory, lanes } = this.#options;
    const names = new Set([...specs.map(({ lane }) => lane), ...(this.#options.moreLanes ?? [])]);
    // All that can fail comes first: a worker that takes turns of some of its lanes is none.
    await directory.publish(specs);
    for (const name of names) {
      await lanes.announce(name);
      await this.#limit(lanes.get(name));
    }
    if (this.#closing.signal.aborted) return;
    const context: WorkerContext = {
      workerId: this.#options.workerId,
      specs: new Map(specs.map((spec) => [spec.name, spec])),
      processes: this.#options.processes,
      start: this.#options.start,
      score: this.#options.score,
      log: this.#options.log,
      running: this.#running,
      onStart: () => this.#options.onStart?.(this.deadlineAt),
      onEnd: this.#options.onEnd,
      closing: this.#closing.signal,
      givenUp: this.#givenUp.signal,
    };
    // A machine that slept has lost leases, maybe: they are asked for before the next renewal is due.
    this.#endLag = reportLag(this.#options.log, { onJump: () => this.#renewAll() });
    const startedAt = Date.now();
    this.#leave = new WorkerRegistry(this.#options.redis).keep(() => ({
      worker: this.#options.workerId,
      agents: specs.map(({ name }) => name),
      lanes: [...names],
      concurrency: this.#options.concurrency,
      running: this.#running.size,
      startedAt,
    }));
    for (const name of names) {
      const fetching =
        names.size === 1 ? { backend: finishingBackend, claim: () => this.#slots.take() } : this.#slotted(name);
      this.#lanes.push(this.#open(name, context, fetching));
    }
  }

  async #limit({ name, queue, ledger }: Lane): Promise<void> {
    const { laneConcurrency, laneLimits } = this.#options;
    if (laneConcurrency !== undefined) {
      const limit = ownOf(laneConcurrency, name);
      await (limit === undefined ? queue.removeGlobalConcurrency() : queue.setGlobalConcurrency(limit));
    }
    if (laneLimits !== undefined) await ledger.limit(ownOf(laneLimits, name) ?? {});
  }

  /** Lanes that share a process's slots. */
  #slotted(lane: string): Fetching {
    const { redis, lanes, log } = this.#options;
    const pass = (): Promise<unknown> =>
      effect("lane:pass", () => redis.zadd(`${laneTag(lane)}:${lane}:marker`, 0, "0"));
    const notPassed = (error: unknown): void => log.debug({ lane, error: messageOf(error) }, "a job was not passed on");
    const limit = new LaneLimit(lanes.get(lane).queue);
    const slotted = new SlottedLane(this.#slots, {
      // BullMQ has taken the marker for itself that says that there is a job: another worker may take it.
      onFull: () => void pass().catch(notPassed),
      // Where the lane's own limit was reached, every loop waits for the marker, this one too.
      onMoved: () =>
        void limit
          .isSet()
          .then((set) => (set ? pass() : undefined))
          .catch(notPassed),
    });
    return { backend: slotted.backend, claim: (token) => slotted.claim(token) };
  }

  #open(lane: string, context: WorkerContext, { backend, claim }: Fetching): LaneWorker {
    const { redis, concurrency, log, locks } = this.#options;
    const ledger = redisLedger(redis, lane, this.#options.leases);
    const leases = new LeaseKeeper(ledger, log);
    let deliveries: Deliveries | undefined;
    const bull = new Worker(
      lane,
      // BullMQ counts parameters: two mean that it makes no AbortSignal, which nothing of ours needs.
      (job, token) => deliveries?.process(job, token ?? "") ?? Promise.reject(new Error("the lane is not open yet")),
      { connection: redis, prefix: laneTag(lane), concurrency, autorun: false, ...BULL, ...locks },
      backend,
    );
    deliveries = new Deliveries({ worker: context, ledger, leases }, claim, bull.getBackend());
    this.#listen(lane, bull);
    this.#cancels ??= new CancelWatch(redis.duplicate(), log);
    this.#cancels.listen(lane, (turn) => leases.cancelled(turn));
    leases.start();
    const reconciler = this.#reconciler(lane);
    reconciler.start();
    const opened: LaneWorker = { lane, ended: false, bull, leases, reconciler };
    void bull.run().catch((error: unknown) => {
      opened.ended = true;
      log.error({ lane, error: messageOf(error) }, "the loop of a lane ended");
    });
    return opened;
  }

  #reconciler(name: string): Reconciler {
    const { lanes, log, retention, directory, specs, laneConcurrency, upkeepEveryMs } = this.#options;
    const lane = lanes.get(name);
    const onRound = async (): Promise<void> => {
      await directory.keepPublished(specs);
      const limit = ownOf(laneConcurrency ?? {}, name);
      // A tool that obliterates a queue takes its settings with it.
      if (limit !== undefined && (await lane.queue.getGlobalConcurrency()) === null)
        await lane.queue.setGlobalConcurrency(limit);
    };
    return new Reconciler({
      lane,
      upkeep: lanes.upkeep(name),
      otherLanes: () => lanes.upkeeps(),
      log,
      retention,
      onRound,
      everyMs: upkeepEveryMs,
    });
  }

  #listen(lane: string, bull: Worker): void {
    let loggedAt = 0;
    bull.on("error", (error) => {
      if (Date.now() - loggedAt < ERROR_LOG_EVERY_MS) return;
      loggedAt = Date.now();
      this.#options.log.debug({ lane, error: error.message }, "BullMQ reports an error");
    });
  }

  /**
   * Takes no more turns, asks the running ones to stop, kills what is left after their grace, hands
   * them back, and ends within `limitMs`. A second call gets the first one's answer.
   */
  close(options: CloseOptions): Promise<CloseReport> {
    this.#closed ??= this.#close(options);
    return this.#closed;
  }

  async #close({ limitMs, onPhase }: CloseOptions): Promise<CloseReport> {
    const enter = (phase: ClosePhase["phase"]): void => {
      const running = this.#running.size;
      if (running === 0) return;
      this.#options.log.info({ phase, running }, "the worker shuts down");
      onPhase?.({ phase, running });
    };
    const startedMs = performance.now();
    const leftMs = (): number => Math.max(0, limitMs - (performance.now() - startedMs));
    this.#closing.abort();
    for (const { reconciler } of this.#lanes) void reconciler.stop().catch(() => undefined);
    // BullMQ's close comes first: a job that is handed back must not be fetched again here.
    const bulls = Promise.all(this.#lanes.map(({ bull }) => bull.close()));
    this.#slots.close();
    enter("stopping");
    for (const turn of this.#running) turn.shutDown();
    // What is left is killed early enough for its account to be stored and its turn to be handed back within the limit.
    const callOffKill = afterMs(systemClock, limitMs * KILL_AT_SHARE, () => {
      enter("killed");
      this.#kill();
    });
    const complete = await hasEnded(bulls, limitMs);
    callOffKill();
    const abandoned = this.#running.size;
    const turns = [...this.#running].slice(0, TURNS_NAMED).map(({ turn }) => turn);
    if (!complete) this.force();
    this.#cancels?.close();
    for (const { leases, bull } of this.#lanes) {
      leases.stop();
      // Its close waits for ever while Redis is away; nothing of it may keep the process.
      if (!complete) void bull.disconnect().catch(() => undefined);
    }
    this.#endLag();
    await hasEnded(this.#leave(), leftMs());
    const specsClosed = await hasEnded(this.#options.closeSpecs?.() ?? Promise.resolve(), leftMs());
    // The connection may go now: what a function still tells of its usage finds nobody who books it.
    this.#givenUp.abort();
    return { complete: complete && specsClosed, abandoned, turns };
  }

  /** Kills every running attempt at once and gives up what is not stored. */
  force(): void {
    this.#givenUp.abort();
    this.#kill();
  }

  #renewAll(): void {
    for (const { leases } of this.#lanes) leases.renewNow();
  }

  #kill(): void {
    for (const turn of this.#running) turn.kill();
  }
}

/** True when the work has ended, well or not, within the limit. */
export async function hasEnded(work: Promise<unknown>, limitMs: number): Promise<boolean> {
  const done = work.catch(() => undefined);
  return (await within(systemClock, limitMs, done)) !== TIME_OVER;
}

/** What a record says of a name, and not what every object has: a lane may be called `constructor`. */
function ownOf<T>(record: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(record, name) ? record[name] : undefined;
}
