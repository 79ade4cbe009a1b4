import type { Redis } from "ioredis";
import { isTurnqError, messageOf } from "../../src/domain/error.ts";
import { laneKey, laneTag } from "../../src/ledger/keys.ts";
import { installProbe } from "../../src/pause/effect.ts";
import { LaneSet } from "../../src/queue/lane-set.ts";
import { connect, whenReady } from "../../src/redis/connection.ts";
import { SILENT } from "../../src/telemetry/log.ts";
import { FakeClock } from "./clock.ts";
import type { Happening, History } from "./history.ts";
import { afterAll, atEachStep, type Seen } from "./laws.ts";
import { People } from "./people.ts";
import { Replies } from "./replies.ts";
import { Schedule, type Stop } from "./schedule.ts";
import { SimulatedWorker, WorkerPlace } from "./simulated-worker.ts";
import { Truth } from "./truth.ts";

const LANE = "simulated";
const WORKERS = 2;
/** How often leases are renewed and the clock is looked at, in ms. */
const STEP_MS = 1000;
/** Rounds in which a store must come to rest once nothing goes wrong any more. */
const DRAIN_ROUNDS = 60;

/** Producers, workers, Redis and a clock, in which histories are played one after the other. */
export class World {
  readonly #redis: Redis;
  readonly #lanes: LaneSet;
  readonly #clock: FakeClock;
  readonly #replies: Replies;
  readonly #places: readonly WorkerPlace[];
  readonly #people: People;
  #schedule = new Schedule();
  #truth = new Truth();
  #seen: Seen = new Map();
  #incarnations = 0;
  #log: string[] = [];
  #broken: string | undefined;

  private constructor(redis: Redis) {
    this.#redis = redis;
    this.#replies = new Replies(redis, () => this.#schedule);
    this.#clock = new FakeClock(redis, LANE, (callback) => this.#schedule.bound(callback));
    this.#lanes = new LaneSet(redis, SILENT);
    this.#places = Array.from({ length: WORKERS }, () => new WorkerPlace(redis, LANE));
    this.#people = new People(redis, this.#lanes, LANE);
    this.#replies.takeOver();
  }

  static async open(url: string): Promise<World> {
    const redis = connect(url, "worker");
    await whenReady(redis, 5000);
    const world = new World(redis);
    await Promise.all(world.#places.map(({ bull }) => bull.waitUntilReady()));
    await world.#lanes.get(LANE).queue.waitUntilReady();
    return world;
  }

  async close(): Promise<void> {
    installProbe(undefined);
    this.#clock.end();
    await Promise.all(this.#places.map(({ bull }) => bull.close(true)));
    await this.#lanes.close();
    this.#redis.disconnect();
  }

  /** Plays a history, lets all come to rest, and answers what broke a law: the first thing, in words, or nothing. */
  async play(history: History): Promise<string | undefined> {
    await this.#begin();
    try {
      for (const [i, happening] of history.entries()) {
        await this.#happen(happening);
        await this.#look();
        if (this.#broken !== undefined) return `at ${i + 1}, ${JSON.stringify(happening)}: ${this.#broken}`;
      }
      return await this.#rest();
    } finally {
      for (const { worker } of this.#places) worker?.end();
      installProbe(undefined);
      this.#schedule.end();
    }
  }

  /** What was done, one line for each change, for people. */
  get account(): readonly string[] {
    return this.#log;
  }

  async #begin(): Promise<void> {
    await this.#redis.flushall();
    this.#schedule = new Schedule();
    this.#truth = new Truth();
    this.#seen = new Map();
    this.#people.begin(this.#truth);
    this.#log = [];
    this.#broken = undefined;
    this.#incarnations = 0;
    await this.#clock.start();
    installProbe(this.#schedule.probe);
    for (const place of this.#places) {
      place.reset();
      this.#replace(place);
    }
  }

  #replace(place: WorkerPlace): void {
    this.#incarnations += 1;
    place.worker = new SimulatedWorker(`w${this.#incarnations}`, place, this.#schedule, this.#truth);
    place.worker.start();
  }

  /** After every change: what breaks a law is kept, the first thing. */
  async #look(): Promise<void> {
    if (this.#broken !== undefined) return;
    const { fault } = this.#schedule;
    const threw = fault === undefined ? undefined : `an actor threw: ${messageOf(fault)}`;
    this.#broken = threw ?? this.#truth.broken[0] ?? (await atEachStep(this.#redis, LANE, this.#seen, this.#truth));
  }

  /** What happens to the schedule and the workers; the rest is what people and producers do. */
  async #happen(happening: Happening): Promise<void> {
    const [what, arg] = happening;
    switch (what) {
      case "fetch":
        return this.#with(this.#awake(), arg, (worker) => this.#fetch(worker));
      case "go":
        return this.#with(this.#free(), arg, (stop) => this.#go(stop));
      case "flow":
        for (let left = arg; left > 0; left -= 1) await this.#with(this.#free(), 0, (stop) => this.#go(stop));
        return;
      case "lose":
        return this.#with(this.#free(), arg, (stop) => {
          this.#replies.lose(stop.actor);
          return this.#go(stop);
        });
      case "kill":
        return this.#with(this.#places, arg, (place) => this.#kill(place));
      case "freeze":
        return this.#with(this.#awake(), arg, async (worker) => {
          worker.frozen = true;
          this.#truth.harmed.add(worker.name);
        });
      case "thaw":
        return this.#with(this.#frozen(), arg, async (worker) => void (worker.frozen = false));
      case "pass":
        return this.#pass(arg);
      case "away":
        return this.#away(arg);
      case "unlock": {
        const turn = await this.#people.meant("unlock", arg);
        return turn === undefined ? undefined : this.#unlock(turn.id, arg);
      }
      default: {
        const deed = await this.#people.deed(happening);
        return deed === undefined ? undefined : this.#act(deed);
      }
    }
  }

  async #with<T>(list: readonly T[], place: number, work: (one: T) => Promise<void>): Promise<void> {
    const one = list[place % list.length];
    if (one !== undefined) await work(one);
  }

  #awake(): SimulatedWorker[] {
    return this.#places.flatMap(({ worker }) => (worker === undefined || worker.frozen ? [] : worker));
  }

  #frozen(): SimulatedWorker[] {
    return this.#places.flatMap(({ worker }) => (worker?.frozen === true ? worker : []));
  }

  /** Those that stand somewhere and may go on. */
  #free(): Stop[] {
    const frozen = new Set(this.#frozen().map(({ name }) => name));
    return this.#schedule.stops.filter(({ actor }) => actor.worker === undefined || !frozen.has(actor.worker));
  }

  /** Somebody who is no worker does something. What is refused is an answer. */
  async #act(work: () => Promise<unknown>): Promise<void> {
    this.#schedule.start({ name: "somebody" }, async () => {
      try {
        await work();
      } catch (error) {
        if (!isTurnqError(error, "not_found")) throw error;
      }
    });
    await this.#quiet();
  }

  async #fetch(worker: SimulatedWorker): Promise<void> {
    worker.fetch();
    await this.#quiet();
  }

  async #go(stop: Stop): Promise<void> {
    this.#log.push(`${this.#clock.now} ${stop.actor.name} ${stop.at}`);
    this.#schedule.go(stop);
    await this.#quiet();
    await this.#look();
  }

  async #kill(place: WorkerPlace): Promise<void> {
    if (place.worker === undefined) return;
    this.#log.push(`${this.#clock.now} ${place.worker.name} is killed`);
    this.#schedule.kill(place.worker.name);
    this.#truth.harmed.add(place.worker.name);
    place.worker.end();
    this.#replace(place);
    await this.#quiet();
  }

  async #pass(ms: number): Promise<void> {
    for (let left = ms; left > 0; left -= STEP_MS) {
      await this.#clock.move(Math.min(STEP_MS, left));
      await this.#quiet();
    }
    await this.#bullsClock();
  }

  /** One leap: nobody's timers came to anything meanwhile. */
  async #away(ms: number): Promise<void> {
    await this.#clock.move(ms);
    await this.#quiet();
    await this.#bullsClock();
  }

  /** What Redis would have let expire by its own clock, and BullMQ's look for jobs whose lock is gone. */
  async #bullsClock(): Promise<void> {
    const until = Number(await this.#redis.hget(laneKey(LANE, "lane"), "gateUntil"));
    if (until <= this.#clock.now) await this.#redis.del(this.#bull("limiter"));
    const living = new Set(this.#places.flatMap(({ worker }) => (worker === undefined ? [] : worker.name)));
    for (const job of await this.#redis.lrange(this.#bull("active"), 0, -1)) {
      const token = await this.#redis.get(this.#bull(`${job}:lock`));
      if (token !== null && !living.has(token.split(":")[0] ?? "")) await this.#redis.del(this.#bull(`${job}:lock`));
    }
    await this.#stalled();
  }

  async #unlock(turn: string, worker: number): Promise<void> {
    const row = await this.#redis.hget(laneKey(LANE, "row", turn), "job");
    if (row !== null) await this.#redis.del(this.#bull(`${row}:lock`));
    await this.#stalled();
    await this.#with(this.#awake(), worker, (awake) => this.#fetch(awake));
  }

  async #stalled(): Promise<void> {
    for (let look = 0; look < 2; look += 1) {
      await this.#redis.del(this.#bull("stalled-check"));
      await this.#places[0]?.bull.getBackend().moveStalledJobsToWait();
    }
  }

  #bull(rest: string): string {
    return `${laneTag(LANE)}:${LANE}:${rest}`;
  }

  /** Until nobody runs: each actor stands at a stop, waits for a timer, or has ended. */
  async #quiet(): Promise<void> {
    for (let still = 0; still < 3;) {
      const before = this.#replies.calls;
      await new Promise((resolve) => setImmediate(resolve));
      still = this.#replies.open === 0 && this.#replies.calls === before ? still + 1 : 0;
    }
  }

  /** Nothing goes wrong any more, and all must come to rest. */
  async #rest(): Promise<string | undefined> {
    for (const { worker } of this.#places) if (worker !== undefined) worker.frozen = false;
    for (let round = 0; round < DRAIN_ROUNDS; round += 1) {
      for (let free = this.#free(); free.length > 0; free = this.#free()) {
        const [stop] = free;
        if (stop !== undefined) await this.#go(stop);
        if (this.#broken !== undefined) return `while all came to rest: ${this.#broken}`;
      }
      if (round % 4 === 0 && (await this.#settled())) break;
      for (const worker of this.#awake()) worker.fetch();
      await this.#quiet();
      if (this.#free().every(({ at }) => at === "before:bull:fetch")) {
        await this.#pass(round < 20 ? 1000 : 5000);
        if (round % 3 === 2) await this.#act(() => this.#people.reconcile());
      }
    }
    const open = await this.#unsettled();
    if (open.length > 0) return `never settled: ${open.join(", ")}`;
    await this.#look();
    return this.#broken ?? (await afterAll(this.#redis, LANE, this.#truth));
  }

  async #unsettled(): Promise<string[]> {
    const rows = await this.#people.rows();
    return rows.flatMap((row) => (row === undefined || row.state === "settled" ? [] : `${row.id} is ${row.state}`));
  }

  /** Every turn has ended, and BullMQ has been told. */
  async #settled(): Promise<boolean> {
    if ((await this.#unsettled()).length > 0) return false;
    return (await this.#redis.llen(this.#bull("active"))) + (await this.#redis.llen(this.#bull("wait"))) === 0;
  }
}
