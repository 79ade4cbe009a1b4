import type { Redis } from "ioredis";
import { effect } from "../pause/effect.ts";
import { laneKey, laneTag, sessionLaneKey } from "./keys.ts";
import { redisNow } from "./redis-now.ts";
import { commandOf, defineScripts, type ScriptName } from "./scripts.ts";

/** A session without turns is bound for this long still: a turn of it may be on its way. */
const UNBOUND_AFTER_MS = 600_000;

/** A walk goes on from a place; "" is the start and the end. */
export type Place = string;

/** Where the rounds of a lane's upkeep go on, by walk. */
export interface UpkeepPlaces {
  readonly scanPlace: Place;
  readonly agedPlace: Place;
  readonly strayPlace: Place;
  readonly batchPlace: Place;
}

/** What is wrong with a turn, and its id; of a `lease` the id with `#ATTEMPT`. See the script scan. */
export interface Fault {
  readonly kind: "corrupt" | "job" | "session" | "lease" | "expired" | "expiry" | `index:${string}`;
  readonly subject: string;
}

/** A page of a lane's unsettled turns. */
export interface Scanned {
  readonly next: Place;
  readonly rows: number;
  /** How many fewer jobs BullMQ holds than there are unsettled turns. */
  readonly missing: number;
  readonly faults: readonly Fault[];
}

/** A settled turn that may be removed. */
export interface AgedTurn {
  readonly turn: string;
  readonly batch: string;
  readonly session: string;
}

/** A page of settled turns, oldest first. Instants are those of Redis's clock, epoch ms. */
export interface Aged {
  readonly next: Place;
  readonly rows: number;
  /** Turns may go that were settled up to then. */
  readonly settledBy: number;
  readonly turns: readonly AgedTurn[];
}

export interface BatchFault {
  readonly kind: "sums" | "old";
  readonly batch: string;
}

/** A field of a batch's hash that was counted anew; `found` is "" where it is absent. */
export interface Recounted {
  readonly field: string;
  readonly found: string;
  readonly due: string;
}

/** What looks after a lane's ledger: nothing here is needed to run a turn. Scripts, each the same when executed twice. */
export interface LaneUpkeep {
  readonly lane: string;
  /** Claims the lane's upkeep; undefined when another one has it. */
  claim(holder: string, forMs: number): Promise<UpkeepPlaces | undefined>;
  giveUp(holder: string): Promise<void>;
  /** Notes what a round has repaired and where the next one goes on. */
  note(nonce: string, repairs: number, places: Partial<UpkeepPlaces>): Promise<void>;
  /** Looks at unsettled turns; `deep` finds jobs too that are in none of BullMQ's lists. */
  scan(place: Place, limit: number, deep: boolean): Promise<Scanned>;
  mend(faults: readonly Fault[]): Promise<void>;
  /** Looks at settled turns that may go: settled by then, as their batches ended by then, or more than are kept. */
  aged(place: Place, endedBy: number, maxSettled: number, limit: number): Promise<Aged>;
  retire(turns: readonly string[], settledBy: number, endedBy: number): Promise<void>;
  /** Jobs that BullMQ finished by then, completed and failed ones from a rank on. */
  finishedJobs(from: number, limit: number, by: number): Promise<readonly string[]>;
  /** True when this lane holds nothing of the batch, or all of it ended by then. */
  batchEnded(batch: string, by: number): Promise<boolean>;
  /** Those of the sessions of which nothing is left may soon live in another lane: their bindings are to end. Answers them. */
  unbind(sessions: readonly string[]): Promise<readonly string[]>;
  /** The bindings of those of the sessions that have come back meanwhile go on. */
  rebind(sessions: readonly string[]): Promise<void>;
  audit(place: Place, limit: number, emptySince: number): Promise<{ next: Place; faults: readonly BatchFault[] }>;
  /** The hash of a batch's counts. */
  batchFields(batch: string): Promise<Readonly<Record<string, string>>>;
  /** A page of a batch's turns, each with these fields of its row; undefined where there is no row. */
  batchRows(
    batch: string,
    after: number,
    limit: number,
    fields: readonly string[],
  ): Promise<{ next: number; rows: readonly BatchRow[] }>;
  recount(batch: string, fields: readonly Recounted[]): Promise<boolean>;
  /** Takes turns out of a batch whose rows are gone; they count as settled, without an outcome. */
  takeOut(batch: string, turns: readonly string[]): Promise<void>;
  /** Drops the counts of a batch of which nothing else has been left since then. */
  dropBatch(batch: string, emptySince: number): Promise<void>;
  now(): Promise<number>;
}

export interface BatchRow {
  readonly turn: string;
  /** `corrupt` when it cannot be read, `gone` when there is none. */
  readonly fields: readonly (string | null)[] | "corrupt" | "gone";
}

/** The Redis implementation of {@link LaneUpkeep}. It does not own the connection. */
export function laneUpkeep(redis: Redis, lane: string): LaneUpkeep {
  defineScripts(redis);
  return new RedisLaneUpkeep(redis, lane);
}

type Command = (...args: (string | number)[]) => Promise<unknown>;

class RedisLaneUpkeep implements LaneUpkeep {
  readonly lane: string;
  readonly #redis: Redis;

  constructor(redis: Redis, lane: string) {
    this.#redis = redis;
    this.lane = lane;
  }

  #run(name: ScriptName, args: readonly (string | number)[]): Promise<unknown> {
    const script: Command = Reflect.get(this.#redis, commandOf(name));
    return effect(`script:${name}`, () => script.call(this.#redis, laneTag(this.lane), ...args));
  }

  #key(kind: Parameters<typeof laneKey>[1], ...parts: (string | number)[]): string {
    return laneKey(this.lane, kind, ...parts);
  }

  async claim(holder: string, forMs: number): Promise<UpkeepPlaces | undefined> {
    const [mine, ...places] = (await this.#run("guard", [holder, forMs])) as [number, ...string[]];
    if (mine !== 1) return undefined;
    const [scanPlace = "", agedPlace = "", strayPlace = "", batchPlace = ""] = places;
    return { scanPlace, agedPlace, strayPlace, batchPlace };
  }

  async giveUp(holder: string): Promise<void> {
    await this.#run("guard", [holder, 0]);
  }

  async note(nonce: string, repairs: number, places: Partial<UpkeepPlaces>): Promise<void> {
    await this.#run("upkeep", [nonce, repairs, ...Object.entries(places).flat()]);
  }

  async scan(place: Place, limit: number, deep: boolean): Promise<Scanned> {
    const answer = (await this.#run("scan", [place, limit, deep ? "1" : "0"])) as [string, number, number, ...string[]];
    const [next, rows, missing, ...rest] = answer;
    return {
      next,
      rows,
      missing,
      faults: pairs(rest).map(([kind, subject]): Fault => ({ kind: kind as Fault["kind"], subject })),
    };
  }

  async mend(faults: readonly Fault[]): Promise<void> {
    if (faults.length === 0) return;
    await this.#run(
      "mend",
      faults.flatMap(({ kind, subject }) => [kind, subject]),
    );
  }

  async aged(place: Place, endedBy: number, maxSettled: number, limit: number): Promise<Aged> {
    const answer = await this.#run("aged", [place, endedBy, maxSettled, limit]);
    const [next, rows, settledBy, ...rest] = answer as [string, number, string, ...string[]];
    const turns: AgedTurn[] = [];
    for (let i = 0; i + 2 < rest.length; i += 3)
      turns.push({ turn: rest[i] ?? "", batch: rest[i + 1] ?? "", session: rest[i + 2] ?? "" });
    return { next, rows, settledBy: Number(settledBy), turns };
  }

  async retire(turns: readonly string[], settledBy: number, endedBy: number): Promise<void> {
    if (turns.length > 0) await this.#run("retire", [settledBy, endedBy, ...turns]);
  }

  async finishedJobs(from: number, limit: number, by: number): Promise<readonly string[]> {
    const sets = await Promise.all(
      ["completed", "failed"].map((set) =>
        this.#redis.zrange(
          `${laneTag(this.lane)}:${this.lane}:${set}`,
          String(from),
          String(from + limit - 1),
          "WITHSCORES",
        ),
      ),
    );
    return sets.flatMap((found) => pairs(found).flatMap(([job, at]) => (Number(at) <= by ? [job] : [])));
  }

  async batchEnded(batch: string, by: number): Promise<boolean> {
    const [counts, [last]] = await Promise.all([
      this.#redis.hmget(this.#key("batch", batch), "turns", "s:settled"),
      this.#redis.zrange(this.#key("batchSettled", batch), "-1", "-1"),
    ]);
    if (Number(counts[1] ?? 0) < Number(counts[0] ?? 0)) return false;
    return last === undefined || Number(await this.#redis.hget(this.#key("row", last), "settledAt")) <= by;
  }

  async unbind(sessions: readonly string[]): Promise<readonly string[]> {
    const freed = await Promise.all(
      sessions.map(async (session) => {
        if ((await this.#redis.exists(this.#key("session", session))) === 1) return undefined;
        const key = sessionLaneKey(session);
        if ((await this.#redis.get(key)) === this.lane)
          await effect("session:unbind", () => this.#redis.pexpire(key, UNBOUND_AFTER_MS));
        return session;
      }),
    );
    return freed.filter((session) => session !== undefined);
  }

  async rebind(sessions: readonly string[]): Promise<void> {
    await Promise.all(
      sessions.map(async (session) => {
        if ((await this.#redis.exists(this.#key("session", session))) === 1)
          await effect("session:rebind", () => this.#redis.persist(sessionLaneKey(session)));
      }),
    );
  }

  async audit(place: Place, limit: number, emptySince: number) {
    const [next, ...rest] = (await this.#run("audit", [place, limit, emptySince])) as [string, ...string[]];
    return { next, faults: pairs(rest).map(([kind, batch]) => ({ kind: kind as BatchFault["kind"], batch })) };
  }

  batchFields(batch: string): Promise<Readonly<Record<string, string>>> {
    return this.#redis.hgetall(this.#key("batch", batch));
  }

  async batchRows(batch: string, after: number, limit: number, fields: readonly string[]) {
    const found = await this.#redis.zrange(
      this.#key("batchTurns", batch),
      `(${after}`,
      "+inf",
      "BYSCORE",
      "LIMIT",
      0,
      limit,
      "WITHSCORES",
    );
    const turns = found.filter((_, i) => i % 2 === 0);
    const pipeline = this.#redis.pipeline();
    for (const turn of turns) pipeline.hmget(this.#key("row", turn), "state", ...fields);
    const replies = turns.length === 0 ? [] : ((await pipeline.exec()) ?? []);
    const rows = turns.map((turn, i): BatchRow => {
      const [error, values] = replies[i] ?? [new Error("no reply")];
      if (error !== null) {
        if (!error.message.startsWith("WRONGTYPE")) throw error;
        return { turn, fields: "corrupt" };
      }
      const [state, ...rest] = values as (string | null)[];
      return { turn, fields: state === null || state === undefined ? "gone" : [state, ...rest] };
    });
    return { next: turns.length === 0 ? after : Number(found.at(-1)), rows };
  }

  async recount(batch: string, fields: readonly Recounted[]): Promise<boolean> {
    const args = fields.flatMap(({ field, found, due }) => [field, found, due]);
    return (await this.#run("recount", [batch, ...args])) === 1;
  }

  async takeOut(batch: string, turns: readonly string[]): Promise<void> {
    if (turns.length > 0) await this.#run("forget", [0, batch, ...turns]);
  }

  async dropBatch(batch: string, emptySince: number): Promise<void> {
    await this.#run("forget", [emptySince, batch]);
  }

  now(): Promise<number> {
    return redisNow(this.#redis);
  }
}

function pairs(flat: readonly string[]): (readonly [string, string])[] {
  return flat.flatMap((first, i) => (i % 2 === 0 ? [[first, flat[i + 1] ?? ""] as const] : []));
}
