import { Worker, type Job } from "bullmq";
import type { Redis } from "ioredis";
import { defineAgent, specOf } from "../../src/agent/define-agent.ts";
import { failure } from "../../src/domain/failure.ts";
import { laneTag } from "../../src/ledger/keys.ts";
import { redisLedger } from "../../src/ledger/redis-ledger.ts";
import { finishingBackend } from "../../src/queue/backend.ts";
import { Deliveries } from "../../src/queue/deliveries.ts";
import { LeaseKeeper } from "../../src/queue/lease-keeper.ts";
import { SILENT } from "../../src/telemetry/log.ts";
import { startOptions } from "../agents.ts";
import type { AttemptEnd } from "./history.ts";
import type { Actor, Schedule } from "./schedule.ts";
import type { Truth } from "./truth.ts";

/** What the agent of a turn does, as its request's options say. */
export interface Behaviour {
  readonly calls: number;
  readonly ends: readonly AttemptEnd[];
}

const TOKENS = 10;

/** A worker process: its ledger, its leases and its deliveries are the real ones; jobs it fetches when it is told. */
export class SimulatedWorker {
  readonly name: string;
  readonly #place: WorkerPlace;
  readonly #leases: LeaseKeeper;
  readonly #deliveries: Deliveries;
  readonly #schedule: Schedule;
  #fetches = 0;
  frozen = false;

  constructor(name: string, place: WorkerPlace, schedule: Schedule, truth: Truth) {
    this.name = name;
    this.#place = place;
    this.#schedule = schedule;
    const ledger = redisLedger(place.redis, place.lane);
    this.#leases = new LeaseKeeper(ledger, SILENT);
    const spec = specOf(agentOf(schedule, truth), { lane: place.lane });
    this.#deliveries = new Deliveries(
      {
        ledger,
        leases: this.#leases,
        worker: {
          workerId: name,
          specs: new Map([[spec.name, spec]]),
          processes: { mark: () => "", sweepEarlier: () => Promise.resolve() },
          start: startOptions(),
          score: () => null,
          log: SILENT,
          running: new Set(),
          closing: new AbortController().signal,
          givenUp: new AbortController().signal,
        },
      },
      () => Promise.resolve(() => undefined),
      place.bull.getBackend(),
    );
  }

  /** Renews its leases by its own timers from now on. */
  start(): void {
    this.#schedule.start(this.#actor("leases"), () => {
      this.#leases.start();
      return Promise.resolve();
    });
  }

  /** Asks BullMQ for a job and goes on with what it gets, in an actor of its own. */
  fetch(): void {
    const token = `${this.name}:${this.#fetches++}`;
    this.#schedule.start(this.#actor(token), async () => {
      const job = await this.#place.bull.getNextJob(token, { block: false });
      if (job !== undefined) await this.#place.bull.processJob(job, token, () => false);
    });
  }

  process(job: Job, token: string): Promise<unknown> {
    return this.#deliveries.process(job, token);
  }

  /** What ends with the process. */
  end(): void {
    this.#leases.stop();
  }

  #actor(name: string): Actor {
    return { name, worker: this.name };
  }
}

/** BullMQ's side of a worker, which histories share: to open one takes longer than a history. */
export class WorkerPlace {
  readonly redis: Redis;
  readonly lane: string;
  readonly bull: Worker;
  worker: SimulatedWorker | undefined;

  constructor(redis: Redis, lane: string) {
    this.redis = redis;
    this.lane = lane;
    this.bull = new Worker(
      lane,
      (job, token) => this.#of(token ?? "").process(job, token ?? ""),
      {
        connection: redis,
        prefix: laneTag(lane),
        autorun: false,
        lockDuration: 3_600_000,
        maxStalledCount: 1_000_000_000,
        limiter: { max: 1e15, duration: 60_000 },
        skipLockRenewal: true,
        skipStalledCheck: true,
      },
      finishingBackend,
    );
    this.bull.on("error", () => undefined);
  }

  #of(token: string): SimulatedWorker {
    if (this.worker === undefined || !token.startsWith(`${this.worker.name}:`))
      throw new Error("a job of a dead worker");
    return this.worker;
  }

  /** BullMQ forgets how long it wanted to wait. */
  reset(): void {
    Reflect.set(this.bull, "limitUntil", 0);
    Reflect.set(this.bull, "drained", false);
  }
}

/** An agent that announces its calls, spends, tells what it spent, and ends as it is told. */
function agentOf(schedule: Schedule, truth: Truth) {
  return defineAgent(
    "a",
    async ({ turn, attempt, options, emit, shouldStop, iteration }) => {
      const { calls, ends } = options as unknown as Behaviour;
      truth.start(turn, attempt);
      for (let call = 0; call < calls; call += 1) {
        if (shouldStop() !== undefined) break;
        if (!(await emit.call())) break;
        await schedule.stop("agent:call");
        truth.spend(turn, attempt, TOKENS);
        await schedule.stop("agent:spent");
        emit.usage({ inputTokens: TOKENS });
      }
      await schedule.stop("agent:end");
      switch (ends[attempt - 1] ?? "ok") {
        case "ok":
          return `answer ${iteration}`;
        case "fail":
          return { failure: failure("agent_error", "it failed", { retryable: false }) };
        case "limited":
          return { failure: failure("rate_limited", "too fast", { retryAt: Date.now() + 1500 }) };
        case "crash":
          throw new Error("it crashed");
      }
    },
    { announcesCalls: true },
  );
}
