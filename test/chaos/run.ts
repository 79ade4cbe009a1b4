import { mkdtemp, rm } from "node:fs/promises";
import { writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { openTurnq } from "../../src/app.ts";
import { LEASE_SETTINGS, type LeaseSettings } from "../../src/ledger/lease-settings.ts";
import { STORE_KEYS } from "../../src/ledger/keys.ts";
import type { Turnq } from "../../src/turnq.ts";
import { openRedisProxy, type RedisProxy } from "../redis-proxy.ts";
import type { Evidence } from "./evidence.ts";
import { Faults } from "./faults.ts";
import { activeJobs, gatherLanes, gatherSessions, gatherTurn, processesOf } from "./gather.ts";
import { judge, type Judgement } from "./judge.ts";
import type { ChaosOptions } from "./options.ts";
import { CAPPED_CONCURRENCY, planOf } from "./plan.ts";
import { countSlots } from "./count-slots.ts";
import { ChaosProducer } from "./producer.ts";
import { RedisUnderFire } from "./redis-under-fire.ts";
import { readTruth } from "./truth.ts";
import { ResultWatch } from "./watch.ts";
import { WorkerSlot } from "./worker-slot.ts";

/** Attempts that one worker runs at once. */
const CONCURRENCY = 4;
const QUICK: LeaseSettings = { leaseMs: 2000, renewEveryMs: 250, maxGapMs: 1500, graceMs: 3000 };
/** How long nothing may get on while the store drains, in leases and graces. */
const DRAIN_ROUNDS = 5;

/** A run's outcome: the figures of its line, and what is wrong. */
export interface ChaosOutcome extends Judgement {
  readonly turns: number;
  readonly settled: number;
  readonly kills: number;
  readonly redisKills: number;
  readonly cuts: number;
  /** The folder with Redis's data and the truth file: kept when something is wrong. */
  readonly folder: string;
}

/** Runs the plan of these options, waits until all is at rest, and judges what is left. */
export async function runChaos(options: ChaosOptions, say: (text: string) => void): Promise<ChaosOutcome> {
  const folder = await mkdtemp(join(tmpdir(), "turnq-chaos-"));
  const truth = join(folder, "truth.jsonl");
  writeFileSync(truth, "");
  const redis = await RedisUnderFire.start(folder);
  const closing: (() => Promise<unknown>)[] = [() => redis.stop()];
  try {
    const producerProxy = await openRedisProxy(redis.port);
    const proxies = await Promise.all(Array.from({ length: options.workers }, () => openRedisProxy(redis.port)));
    closing.unshift(...[producerProxy, ...proxies].map((proxy) => () => proxy.close()));
    const turnq = await openTurnq({ redis: producerProxy.url });
    closing.unshift(() => turnq.close());
    const slots = openSlots(proxies, options, say);
    closing.unshift(() => Promise.resolve(slots.forEach((slot) => slot.destroy())));
    const outcome = await new Run({ options, say, folder, truth, redis, turnq, slots, proxies, producerProxy }).all();
    for (const close of closing.splice(0)) await close();
    if (outcome.violations.length === 0 && !options.keep) await rm(folder, { recursive: true, force: true });
    return outcome;
  } finally {
    for (const close of closing) await close().catch(() => undefined);
  }
}

function openSlots(proxies: readonly RedisProxy[], options: ChaosOptions, say: (text: string) => void): WorkerSlot[] {
  const told = {
    concurrency: CONCURRENCY,
    laneConcurrency: { capped: CAPPED_CONCURRENCY },
    leases: options.quick ? QUICK : undefined,
    verbose: options.verbose,
  };
  return proxies.map((proxy) => new WorkerSlot(proxy.url, told, say));
}

interface RunParts {
  readonly options: ChaosOptions;
  readonly say: (text: string) => void;
  readonly folder: string;
  readonly truth: string;
  readonly redis: RedisUnderFire;
  readonly turnq: Turnq;
  readonly slots: readonly WorkerSlot[];
  readonly proxies: readonly RedisProxy[];
  readonly producerProxy: RedisProxy;
}

class Run {
  readonly #parts: RunParts;
  readonly #producer: ChaosProducer;
  readonly #watch: ResultWatch;
  readonly #retries: Promise<void>[] = [];

  constructor(parts: RunParts) {
    this.#parts = parts;
    this.#producer = new ChaosProducer(parts.turnq, parts.truth);
    this.#watch = new ResultWatch(parts.redis.direct, this.#producer.accepted, (turn) => {
      if (turn.retryAfterMs !== undefined) this.#retries.push(this.#producer.retry(turn));
    });
  }

  async all(): Promise<ChaosOutcome> {
    const { options, redis, slots, turnq, truth, folder, say } = this.#parts;
    const plan = planOf(options);
    const store = (await redis.direct.get(STORE_KEYS.store)) ?? "";
    for (const slot of slots) slot.start();
    while (!slots.every((slot) => slot.idle)) await sleep(20);
    await turnq.refreshAgents();
    say(`${slots.length} workers are up`);
    this.#watch.start();
    const progress = setInterval(() => say(this.#state()), 5000);
    const faults = new Faults(this.#parts);
    const submitted = this.#producer.submitAll(plan.turns);
    await Promise.all([faults.run(plan.faults), submitted]);
    say("the faults are over, the store drains");
    await this.#drain();
    faults.end();
    clearInterval(progress);
    await this.#watch.end();
    const running = slots.reduce((sum, slot) => sum + slot.running, 0);
    const early = processesOf(store, true);
    const counted = await countSlots({
      turnq,
      redis: redis.direct,
      truth,
      workers: slots.length,
      concurrency: CONCURRENCY,
    });
    await Promise.all(slots.map((slot) => slot.close()));
    const evidence = await this.#gather({
      slots: counted,
      running,
      orphans: [...early, ...(await leftOver(store))],
      workerFaults: slots.flatMap((slot) => slot.faults),
    });
    const judgement = judge(evidence);
    const turns = [...this.#producer.accepted.values()];
    return {
      ...judgement,
      turns: turns.length,
      settled: evidence.turns.filter(({ state }) => state === "settled").length,
      kills: slots.reduce((sum, slot) => sum + slot.kills, 0),
      redisKills: redis.kills,
      cuts: faults.cuts,
      folder,
    };
  }

  #state(): string {
    const { slots } = this.#parts;
    const running = slots.map((slot) => (slot.up ? String(slot.running) : "-")).join(" ");
    return `${this.#producer.accepted.size} turns accepted, ${this.#watch.settled} settled, by worker ${running} run`;
  }

  /** Until every turn is settled and BullMQ knows; it is given up when nothing gets on, which is a finding. */
  async #drain(): Promise<void> {
    const { options, redis, slots, say } = this.#parts;
    const { leaseMs, graceMs } = options.quick ? QUICK : LEASE_SETTINGS;
    const limitMs = DRAIN_ROUNDS * (leaseMs + graceMs) + 10_000;
    let before = "";
    for (let givenUpAt = Date.now() + limitMs; Date.now() < givenUpAt; await sleep(200)) {
      const retried = this.#retries.splice(0);
      await Promise.all(retried);
      const open = retried.length > 0 || !(await this.#watch.allSettled());
      const active = await activeJobs(redis.direct);
      if (!open && active === 0 && slots.every((slot) => slot.idle && slot.running === 0)) return;
      const now = `${this.#watch.settled} ${active} ${slots.map((slot) => slot.running).join(" ")}`;
      if (now !== before) givenUpAt = Date.now() + limitMs;
      before = now;
    }
    say(`nothing got on for ${limitMs} ms: ${this.#state()}`);
  }

  async #gather(rest: Pick<Evidence, "slots" | "running" | "orphans" | "workerFaults">): Promise<Evidence> {
    const { redis, truth } = this.#parts;
    const accepted = [...this.#producer.accepted.values()];
    return {
      turns: await Promise.all(
        accepted.map((turn) => gatherTurn(redis.direct, turn, this.#watch, this.#producer.retries.get(turn.id) ?? 0)),
      ),
      sessions: await gatherSessions(redis.direct, accepted),
      lanes: await gatherLanes(redis.direct),
      truth: await readTruth(truth),
      ...rest,
      workerFaults: [...rest.workerFaults, ...this.#producer.faults],
    };
  }
}

/** Processes with the store's mark that are there when the workers have ended, and stay. */
async function leftOver(store: string): Promise<ReturnType<typeof processesOf>> {
  for (const givenUpAt = Date.now() + 2000; Date.now() < givenUpAt; await sleep(50)) {
    if (processesOf(store, false).length === 0) return [];
  }
  return processesOf(store, false);
}
