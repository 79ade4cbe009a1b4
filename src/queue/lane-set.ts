import { Queue } from "bullmq";
import type { Redis } from "ioredis";
import { Name } from "../domain/id.ts";
import type { LaneLedger } from "../ledger/ledger.ts";
import { laneTag, STORE_KEYS } from "../ledger/keys.ts";
import { redisLedger } from "../ledger/redis-ledger.ts";
import { laneUpkeep, type LaneUpkeep } from "../ledger/upkeep.ts";
import { effect } from "../pause/effect.ts";
import type { Log } from "../telemetry/log.ts";
import { finishingBackend } from "./backend.ts";

/** Entries that BullMQ's event stream of a lane keeps: for dashboards only, nothing of ours reads it. */
export const EVENTS_MAX = 1000;

export type LaneQueue = Queue<unknown, unknown, string, unknown, unknown, string, ReturnType<typeof finishingBackend>>;

/** One lane as a producer holds it. */
export interface Lane {
  readonly name: string;
  readonly queue: LaneQueue;
  readonly ledger: LaneLedger;
}

/** The lanes that a process speaks to, each opened once. Does not own the connection. */
export class LaneSet {
  readonly #redis: Redis;
  readonly #log: Log;
  readonly #lanes = new Map<string, Lane>();
  readonly #named = new Set<string>();

  constructor(redis: Redis, log: Log) {
    this.#redis = redis;
    this.#log = log;
  }

  get(name: string): Lane {
    let lane = this.#lanes.get(name);
    if (lane === undefined) {
      const queue: LaneQueue = new Queue(
        name,
        {
          connection: this.#redis,
          prefix: laneTag(name),
          streams: { events: { maxLen: EVENTS_MAX } },
          skipMetasUpdate: false,
        },
        finishingBackend,
      );
      queue.on("error", (error) =>
        this.#log.debug({ lane: name, error: error.message }, "the queue of a lane reports an error"),
      );
      lane = { name, queue, ledger: redisLedger(this.#redis, name) };
      this.#lanes.set(name, lane);
    }
    return lane;
  }

  /** Has the lane listed in the store; once per process. */
  async announce(name: string): Promise<void> {
    if (this.#named.has(name)) return;
    await effect("lane:announce", () => this.#redis.sadd(STORE_KEYS.lanes, name));
    this.#named.add(name);
  }

  /** The names of all lanes in the store. What cannot be one, whoever wrote it, must not hide the others. */
  async names(): Promise<string[]> {
    const names = await this.#redis.smembers(STORE_KEYS.lanes);
    return names.filter((name) => Name.safeParse(name).success).toSorted();
  }

  /** What looks after each lane of the store. */
  async upkeeps(): Promise<LaneUpkeep[]> {
    return (await this.names()).map((name) => this.upkeep(name));
  }

  upkeep(name: string): LaneUpkeep {
    return laneUpkeep(this.#redis, name);
  }

  async close(): Promise<void> {
    await Promise.all([...this.#lanes.values()].map(({ queue }) => queue.close()));
    this.#lanes.clear();
  }
}
