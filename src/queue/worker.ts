import type { AgentSpec } from "../agent/agent-spec.ts";
import { afterMs, systemClock, TIME_OVER, within } from "../agent/deadline.ts";
import { CancelWatch } from "./cancel-watch.ts";
import type { Lane } from "./lane-set.ts";
import { openLane, type LaneWorker } from "./lane-worker.ts";
import { reportLag } from "./loop-lag.ts";
import { MissingAgents } from "./missing-agents.ts";
import { ownOf } from "./own-of.ts";
import { readinessOf, type Readiness } from "./readiness.ts";
import { Slots } from "./slots.ts";
import { WorkerRegistry, type Presence, type WorkerInfo } from "./worker-registry.ts";
import type { RunningTurn, WorkerContext } from "./worker-context.ts";
import type { TurnWorkerOptions } from "./worker-options.ts";

/** When in the time of a shutdown the attempts are killed that did not stop by themselves. */
const KILL_AT_SHARE = 0.6;

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

/** Takes turns of its agents' lanes and runs them. Start and close may be called more than once. */
export class TurnWorker {
  readonly #options: TurnWorkerOptions;
  readonly #closing = new AbortController();
  readonly #givenUp = new AbortController();
  readonly #running = new Set<RunningTurn>();
  readonly #slots: Slots;
  /** The agents that it runs, by name. */
  readonly #specs = new Map<string, AgentSpec>();
  readonly #missing: MissingAgents;
  readonly #context: WorkerContext;
  readonly #startedAt = Date.now();
  /** The lanes that it takes turns of. */
  readonly #laneNames = new Set<string>();
  readonly #lanes: LaneWorker[] = [];
  #cancels: CancelWatch | undefined;
  #endLag: () => void = () => undefined;
  /** Its place in the list of workers. */
  #presence: Presence | undefined;
  #started: Promise<void> | undefined;
  #closed: Promise<CloseReport> | undefined;

  constructor(options: TurnWorkerOptions) {
    this.#options = options;
    this.#slots = new Slots(options.concurrency);
    for (const spec of options.specs) this.#specs.set(spec.name, spec);
    this.#missing = new MissingAgents({
      missing: options.missing ?? new Map(),
      serve: (spec) => this.#serve(spec),
      clock: options.clock ?? systemClock,
      log: options.log,
    });
    const { workerId, processes, start, score, log } = options;
    this.#context = {
      workerId,
      specs: this.#specs,
      processes,
      start,
      score,
      log,
      running: this.#running,
      onStart: () => options.onStart?.(this.deadlineAt),
      onEnd: options.onEnd,
      closing: this.#closing.signal,
      givenUp: this.#givenUp.signal,
    };
  }

  /** Whether it takes turns of this agent in this lane now. */
  serves(agent: string, lane: string): boolean {
    if (this.#closing.signal.aborted) return false;
    return this.#specs.has(agent) && this.#lanes.some((opened) => opened.lane === lane);
  }

  /** Attempts that run now. */
  get running(): number {
    return this.#running.size;
  }

  /** Whether it takes turns now, from what was observed; asks nothing of Redis. */
  readiness(): Readiness {
    if (this.#closing.signal.aborted)
      return { ready: false, reason: "closing", message: "the worker takes no more turns" };
    if (this.#presence === undefined) return { ready: false, reason: "not_started", message: "no lane is open yet" };
    return readinessOf(this.#lanes, { running: this.#specs.size, missing: this.#missing.list });
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
    const { specs, directory, redis } = this.#options;
    const names = new Set([...specs.map(({ lane }) => lane), ...(this.#options.moreLanes ?? [])]);
    // All that can fail comes first: a worker that takes turns of some of its lanes is none.
    await directory.publish(specs);
    for (const name of names) await this.#prepare(name);
    if (this.#closing.signal.aborted) return;
    for (const name of names) this.#laneNames.add(name);
    // Whoever sees that it has started may look for it on the list.
    const presence = await new WorkerRegistry(redis).keep(() => this.#told());
    if (this.#closing.signal.aborted) return presence.leave();
    this.#presence = presence;
    // A machine that slept has lost leases, maybe: they are asked for before the next renewal is due.
    this.#endLag = reportLag(this.#options.log, { onJump: () => this.#renewAll() });
    for (const name of names) this.#open(name);
    this.#missing.start();
  }

  /** Takes up an agent that was missing. */
  async #serve(spec: AgentSpec): Promise<void> {
    const { name, lane } = spec;
    await this.#options.directory.publish([spec]);
    if (!this.#laneNames.has(lane)) await this.#prepare(lane);
    if (this.#closing.signal.aborted) return;
    this.#specs.set(name, spec);
    // Another agent of the lane may have come meanwhile.
    if (!this.#laneNames.has(lane)) this.#open(lane);
    this.#laneNames.add(lane);
    this.#presence?.tellNow();
  }

  /** What the list of workers says of it. */
  #told(): Omit<WorkerInfo, "at"> {
    return {
      worker: this.#options.workerId,
      agents: [...this.#specs.keys()],
      missing: [...this.#missing.list],
      lanes: [...this.#laneNames],
      concurrency: this.#options.concurrency,
      running: this.#running.size,
      startedAt: this.#startedAt,
      closing: this.#closing.signal.aborted,
    };
  }

  async #prepare(name: string): Promise<void> {
    const { lanes } = this.#options;
    await lanes.announce(name);
    await this.#limit(lanes.get(name));
  }

  #open(name: string): void {
    const { specs, missing, moreLanes, directory, redis, log } = this.#options;
    const ever = new Set([...specs, ...(missing?.keys() ?? [])].map(({ lane }) => lane).concat(moreLanes ?? []));
    const opened = openLane(name, {
      worker: this.#options,
      context: this.#context,
      slots: this.#slots,
      shared: ever.size > 1,
      cancels: (this.#cancels ??= new CancelWatch(redis.duplicate(), log)),
      onRound: () => directory.keepPublished([...this.#specs.values()]),
    });
    this.#lanes.push(opened);
  }

  async #limit({ name, queue, ledger }: Lane): Promise<void> {
    const { laneConcurrency, laneLimits } = this.#options;
    if (laneConcurrency !== undefined) {
      const limit = ownOf(laneConcurrency, name);
      await (limit === undefined ? queue.removeGlobalConcurrency() : queue.setGlobalConcurrency(limit));
    }
    if (laneLimits !== undefined) await ledger.limit(ownOf(laneLimits, name) ?? {});
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
    this.#missing.stop();
    this.#presence?.tellNow();
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
    await hasEnded(this.#presence?.leave() ?? Promise.resolve(), leftMs());
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
