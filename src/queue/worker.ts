import { Worker } from "bullmq";
import type { Redis } from "ioredis";
import type { AgentSpec } from "../agent/agent-spec.ts";
import type { RunningAttempt } from "../agent/attempt.ts";
import type { StartOptions } from "../agent/agent.ts";
import { messageOf } from "../domain/error.ts";
import { laneTag } from "../ledger/keys.ts";
import type { LeaseSettings } from "../ledger/lease-settings.ts";
import { redisLedger } from "../ledger/redis-ledger.ts";
import type { Log } from "../telemetry/log.ts";
import { finishingBackend } from "./backend.ts";
import { Deliveries } from "./deliveries.ts";
import type { Directory } from "./directory.ts";
import type { LaneSet } from "./lane-set.ts";
import { LeaseKeeper } from "./lease-keeper.ts";
import { Slots } from "./slots.ts";
import type { ProcessPort, Scorer, WorkerContext } from "./worker-context.ts";

/** BullMQ's side of a worker: a lock only says that someone should look, so it is short and a stall never fails a job. */
const BULL = {
  lockDuration: 8000,
  stalledInterval: 3000,
  maxStalledCount: 1_000_000_000,
  runRetryDelay: 1000,
  drainDelay: 5,
} as const;
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
  /** Turns at once over all workers, by lane. */
  readonly laneConcurrency?: Readonly<Record<string, number>> | undefined;
  readonly processes: ProcessPort;
  readonly start: StartOptions;
  readonly score: Scorer;
  readonly directory: Directory;
  readonly lanes: LaneSet;
  readonly log: Log;
  /** Tests only: all workers of a lane must agree. */
  readonly leases?: LeaseSettings | undefined;
}

/** What a shutdown left. */
export interface CloseReport {
  /** False when the limit came first. */
  readonly complete: boolean;
  /** Attempts that were still running at the limit: another worker will find them lost. */
  readonly abandoned: number;
}

interface LaneWorker {
  readonly bull: Worker;
  readonly leases: LeaseKeeper;
}

/** Takes turns of its agents' lanes and runs them. Start and close may be called more than once. */
export class TurnWorker {
  readonly #options: TurnWorkerOptions;
  readonly #closing = new AbortController();
  readonly #givenUp = new AbortController();
  readonly #running = new Set<RunningAttempt>();
  #lanes: LaneWorker[] = [];
  #started: Promise<void> | undefined;
  #closed: Promise<CloseReport> | undefined;

  constructor(options: TurnWorkerOptions) {
    this.#options = options;
  }

  /** Attempts that run now. */
  get running(): number {
    return this.#running.size;
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
    const { specs, directory, lanes, laneConcurrency } = this.#options;
    const names = new Set([...specs.map(({ lane }) => lane), ...(this.#options.moreLanes ?? [])]);
    // All that can fail comes first: a worker that takes turns of some of its lanes is none.
    await directory.publish(specs);
    for (const name of names) {
      await lanes.announce(name);
      const limit = laneConcurrency?.[name];
      if (limit !== undefined) await lanes.get(name).queue.setGlobalConcurrency(limit);
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
      closing: this.#closing.signal,
      givenUp: this.#givenUp.signal,
    };
    const slots = new Slots(this.#options.concurrency);
    for (const name of names) this.#lanes.push(this.#open(name, context, slots));
  }

  #open(lane: string, context: WorkerContext, slots: Slots): LaneWorker {
    const { redis, concurrency, log } = this.#options;
    const ledger = redisLedger(redis, lane, this.#options.leases);
    const leases = new LeaseKeeper(ledger, log);
    let deliveries: Deliveries | undefined;
    const bull = new Worker(
      lane,
      // BullMQ counts parameters: two mean that it makes no AbortSignal, which nothing of ours needs.
      (job, token) => deliveries?.process(job, token ?? "") ?? Promise.reject(new Error("the lane is not open yet")),
      { connection: redis, prefix: laneTag(lane), concurrency, autorun: false, ...BULL },
      finishingBackend,
    );
    deliveries = new Deliveries({ worker: context, ledger, leases }, slots, bull.getBackend());
    this.#listen(lane, bull);
    leases.start();
    void bull.run().catch((error: unknown) => log.error({ lane, error: messageOf(error) }, "the loop of a lane ended"));
    return { bull, leases };
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
  close(options: { readonly limitMs: number }): Promise<CloseReport> {
    this.#closed ??= this.#close(options.limitMs);
    return this.#closed;
  }

  async #close(limitMs: number): Promise<CloseReport> {
    const startedMs = performance.now();
    const leftMs = (): number => Math.max(0, limitMs - (performance.now() - startedMs));
    this.#closing.abort();
    // BullMQ's close comes first: a job that is handed back must not be fetched again here.
    const bulls = Promise.all(this.#lanes.map(({ bull }) => bull.close()));
    for (const attempt of this.#running) attempt.stop("shutdown");
    // What is left is killed early enough for its account to be stored and its turn to be handed back within the limit.
    const kill = setTimeout(() => this.#kill(), limitMs * KILL_AT_SHARE);
    const complete = await within(bulls, limitMs);
    clearTimeout(kill);
    const abandoned = this.#running.size;
    if (!complete) this.force();
    for (const { leases, bull } of this.#lanes) {
      leases.stop();
      // Its close waits for ever while Redis is away; nothing of it may keep the process.
      if (!complete) void bull.disconnect().catch(() => undefined);
    }
    const specsClosed = await within(this.#options.closeSpecs?.() ?? Promise.resolve(), leftMs());
    return { complete: complete && specsClosed, abandoned };
  }

  /** Kills every running attempt at once and gives up what is not stored. */
  force(): void {
    this.#givenUp.abort();
    this.#kill();
  }

  #kill(): void {
    for (const attempt of this.#running) attempt.kill("shutdown");
  }
}

/** True when the work has ended, well or not, within the limit. */
export async function within(work: Promise<unknown>, limitMs: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<false>((resolve) => (timer = setTimeout(() => resolve(false), limitMs)));
  const done = work.then(
    () => true,
    () => true,
  );
  const first = await Promise.race([done, limit]);
  clearTimeout(timer);
  return first;
}
