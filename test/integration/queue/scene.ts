import { once } from "node:events";
import { fork, type ChildProcess } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath, pathToFileURL } from "node:url";
import { Queue } from "bullmq";
import type { Redis } from "ioredis";
import { expect } from "vitest";
import { openTurnq, type AgentLike } from "../../../src/app.ts";
import type { AgentSpec } from "../../../src/agent/agent-spec.ts";
import type { Clock } from "../../../src/agent/deadline.ts";
import { isDefinedAgent, specOf, type DefinedAgent } from "../../../src/agent/define-agent.ts";
import { scoreOf } from "../../../src/batch/score.ts";
import type { TurnEvent } from "../../../src/domain/turn-event.ts";
import { laneTag } from "../../../src/ledger/keys.ts";
import { LEASE_SETTINGS, type LeaseSettings } from "../../../src/ledger/lease-settings.ts";
import type { LaneLedger, LaneLimits } from "../../../src/ledger/ledger.ts";
import { redisLedger } from "../../../src/ledger/redis-ledger.ts";
import { Directory } from "../../../src/queue/directory.ts";
import { LaneSet } from "../../../src/queue/lane-set.ts";
import type { Retention } from "../../../src/queue/retention.ts";
import type { TurnHandle } from "../../../src/queue/turn-handle.ts";
import type { ProcessPort } from "../../../src/queue/worker-context.ts";
import { TurnWorker } from "../../../src/queue/worker.ts";
import { isCluster } from "../../../src/redis/cluster.ts";
import { connect, whenReady } from "../../../src/redis/connection.ts";
import { SILENT, type Log } from "../../../src/telemetry/log.ts";
import type { Turnq } from "../../../src/turnq.ts";
import { startOptions } from "../../agents.ts";
import { checkLane } from "../../check-lane.ts";
import { everywhere } from "../../cluster.ts";

/** How long a condition may take to come true, in ms: far above what any needs. */
const PATIENCE_MS = 30_000;

/** Waits until the question has an answer other than undefined, null or false. */
export async function until<T>(ask: () => Promise<T> | T, what = "the condition"): Promise<NonNullable<T>> {
  const givenUpAt = Date.now() + PATIENCE_MS;
  for (;;) {
    const answer = await ask();
    if (answer !== undefined && answer !== null && answer !== false) return answer;
    if (Date.now() > givenUpAt) throw new Error(`${what} did not come true`);
    await sleep(10);
  }
}

/** Something that comes to pass once, which tests wait for. */
export class Gate {
  #open = (): void => {};
  readonly opened: Promise<void>;

  constructor() {
    this.opened = new Promise((resolve) => (this.#open = resolve));
  }

  open(): void {
    this.#open();
  }
}

export interface WorkerSettings {
  readonly id?: string | undefined;
  readonly concurrency?: number | undefined;
  readonly leases?: Partial<LeaseSettings> | undefined;
  readonly log?: Log | undefined;
  readonly processes?: ProcessPort | undefined;
  readonly laneConcurrency?: Readonly<Record<string, number>> | undefined;
  readonly laneLimits?: Readonly<Record<string, LaneLimits>> | undefined;
  readonly upkeepEveryMs?: number | undefined;
  /** Agents that it does without for now, and the clock by which it tries them again. */
  readonly missing?: ReadonlyMap<AgentSpec, string> | undefined;
  readonly clock?: Clock | undefined;
  readonly retention?: Retention | undefined;
  /** Given the worker's connection before it is used. */
  readonly prepare?: ((redis: Redis) => void) | undefined;
}

export interface TestWorker {
  readonly worker: TurnWorker;
  readonly redis: Redis;
  close(limitMs?: number): ReturnType<TurnWorker["close"]>;
}

/** Quick leases: what takes 8 s in earnest takes half a second. */
export const QUICK: LeaseSettings = { leaseMs: 400, renewEveryMs: 40, maxGapMs: 5000, graceMs: 2000 };

/** A producer, workers and a look into Redis, on a test's server. Closes all that it opened. */
export class Scene {
  readonly turnq: Turnq;
  readonly redis: Redis;
  readonly url: string;
  readonly #closing: (() => Promise<unknown>)[] = [];
  #workers = 0;

  private constructor(url: string, turnq: Turnq, redis: Redis) {
    this.url = url;
    this.turnq = turnq;
    this.redis = redis;
  }

  static async open(url: string, agents: readonly AgentLike[] = []): Promise<Scene> {
    const redis = everywhere(connect(url, "worker"));
    await whenReady(redis, 5000);
    return new Scene(url, await openTurnq({ redis: url, agents }), redis);
  }

  /** Has something closed with the scene, before what was opened earlier. */
  onClose(close: () => Promise<unknown>): void {
    this.#closing.unshift(close);
  }

  async close(): Promise<void> {
    for (const close of this.#closing) await close();
    await this.turnq.close();
    this.redis.disconnect();
  }

  ledger(lane: string): LaneLedger {
    return redisLedger(this.redis, lane);
  }

  /** Has producers know agents whose worker is not there yet. */
  async publish(...agents: readonly (DefinedAgent | AgentSpec)[]): Promise<void> {
    await new Directory(this.redis, [], () => "").publish(agents.map(specOfEither));
  }

  /** Starts a worker of these agents in this process. */
  async worker(agents: readonly (DefinedAgent | AgentSpec)[], settings: WorkerSettings = {}): Promise<TestWorker> {
    const redis = connect(this.url, "worker");
    await whenReady(redis, 5000);
    settings.prepare?.(redis);
    this.#workers += 1;
    const lanes = new LaneSet(redis, SILENT);
    const worker = new TurnWorker({
      redis,
      workerId: settings.id ?? `worker-${this.#workers}`,
      specs: agents.map(specOfEither),
      missing: settings.missing,
      clock: settings.clock,
      concurrency: settings.concurrency ?? 4,
      processes: settings.processes ?? { mark: () => "", sweepEarlier: () => Promise.resolve() },
      laneConcurrency: settings.laneConcurrency,
      laneLimits: settings.laneLimits,
      start: startOptions(),
      score: scoreOf,
      directory: new Directory(redis, [], () => ""),
      lanes,
      log: settings.log ?? SILENT,
      upkeepEveryMs: settings.upkeepEveryMs,
      retention: settings.retention,
      leases: { ...LEASE_SETTINGS, ...settings.leases },
    });
    await worker.start();
    const close = async (limitMs = 10_000): ReturnType<TurnWorker["close"]> => {
      const report = await worker.close({ limitMs });
      await lanes.close();
      redis.disconnect();
      return report;
    };
    let closed: ReturnType<TurnWorker["close"]> | undefined;
    const once = (limitMs?: number): ReturnType<TurnWorker["close"]> => (closed ??= close(limitMs));
    this.onClose(once);
    return { worker, redis, close: once };
  }

  /** A queue as any BullMQ tool opens it: by name and prefix alone. */
  queue(lane: string): Queue {
    // BullMQ is given a connection for a cluster; what it opens itself it also closes.
    const own = isCluster(this.redis) ? connect(this.url, "worker") : undefined;
    const queue = new Queue(lane, { connection: own ?? { url: this.url }, prefix: laneTag(lane) });
    this.onClose(async () => {
      await queue.close();
      own?.disconnect();
    });
    return queue;
  }

  bull(lane: string, rest: string): string {
    return `${laneTag(lane)}:${lane}:${rest}`;
  }

  /** What BullMQ does to a job whose lock was lost: the job is delivered once more. */
  async stall(lane: string, turnOrJob: string): Promise<void> {
    const job = turnOrJob.replaceAll(":", "+");
    const key = (rest: string): string => this.bull(lane, rest);
    await this.redis
      .multi()
      .del(key(`${job}:lock`))
      .lrem(key("active"), 0, job)
      .lpush(key("wait"), job)
      .zadd(key("marker"), 0, "0")
      .exec();
  }

  /** Waits until a job is where BullMQ keeps finished ones. */
  async told(lane: string, turnOrJob: string): Promise<"completed" | "failed"> {
    const job = turnOrJob.replaceAll(":", "+");
    return until(async () => {
      const [completed, failed] = await Promise.all([
        this.redis.zscore(this.bull(lane, "completed"), job),
        this.redis.zscore(this.bull(lane, "failed"), job),
      ]);
      return completed !== null ? "completed" : failed !== null ? "failed" : undefined;
    }, `the end of job ${job}`);
  }

  /** The lane agrees with itself. */
  async check(lane: string): Promise<void> {
    expect(await checkLane(this.redis, lane)).toEqual([]);
  }
}

function specOfEither(agent: DefinedAgent | AgentSpec): AgentSpec {
  return isDefinedAgent(agent) ? specOf(agent) : agent;
}

export async function eventsOf(turn: TurnHandle, after?: number): Promise<TurnEvent[]> {
  const events: TurnEvent[] = [];
  for await (const event of turn.events({ after })) events.push(event);
  return events;
}

/** Runs what a test does in a folder that is gone afterwards. */
export async function inFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), "turnq-test-queue-"));
  try {
    return await work(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

export interface WorkerProcess {
  readonly child: ChildProcess;
  readonly pid: number;
  kill(signal: NodeJS.Signals): void;
  /** Resolves with code or signal when the process has ended. */
  readonly ended: Promise<number | NodeJS.Signals>;
}

/** A worker with the scripted agent in a process of its own; resolves when it takes turns. */
export async function workerProcess(
  url: string,
  agent: string,
  more: { readonly closeLimitMs?: number } = {},
): Promise<WorkerProcess> {
  return forkWorker("worker.ts", [url, agent, String(more.closeLimitMs ?? "")]);
}

/** A worker of these scripted agents in a process of its own, with short leases and locks: its death is found out soon. */
export async function quickWorkerProcess(url: string, id: string, agents: readonly string[]): Promise<WorkerProcess> {
  return forkWorker("quick-worker.ts", [url, id, ...agents]);
}

async function forkWorker(file: string, args: readonly string[]): Promise<WorkerProcess> {
  const entry = fileURLToPath(new URL(`../../fixtures/queue/${file}`, import.meta.url));
  const jiti = dirname(createRequire(import.meta.url).resolve("jiti/package.json"));
  const child = fork(entry, [...args], {
    execArgv: ["--import", pathToFileURL(join(jiti, "lib", "jiti-register.mjs")).href],
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  const ended = new Promise<number | NodeJS.Signals>((resolve) =>
    child.once("exit", (code, signal) => resolve(signal ?? code ?? 0)),
  );
  const ready = once(child, "message");
  const first = await Promise.race([ready.then(() => "ready"), ended]);
  if (first !== "ready") throw new Error(`the worker process ended: ${first}`);
  return { child, pid: child.pid ?? 0, kill: (signal) => void child.kill(signal), ended };
}
