import type { Redis } from "ioredis";
import { v7 as uuidv7 } from "uuid";
import { z } from "zod";
import { STORE_KEYS } from "../ledger/keys.ts";
import { redisNow } from "../ledger/redis-now.ts";
import { effect } from "../pause/effect.ts";
import type { MissingAgent } from "./missing-agents.ts";

/** A worker as it says of itself. */
export const WorkerInfo = z.object({
  /** Its process's; workers of one process share it. */
  worker: z.string(),
  /** The agents that it runs. */
  agents: z.array(z.string()),
  /** Agents that it was to run and cannot, and why. It tries them again every 10 s. */
  missing: z.array(z.object({ agent: z.string(), problem: z.string() })),
  lanes: z.array(z.string()),
  concurrency: z.number(),
  /** Attempts that it runs. */
  running: z.number(),
  /** Whether it shuts down, and takes no more turns. */
  closing: z.boolean(),
  /** Epoch ms by its own clock. */
  startedAt: z.number(),
  /** When it said so, epoch ms by the clock of Redis. */
  at: z.number(),
});
export type WorkerInfo = z.infer<typeof WorkerInfo>;

/** How often a worker tells that it is there, in ms. */
const TELL_EVERY_MS = 5000;
/** One that has told nothing for so long is gone, in ms. */
const GONE_MS = 20_000;

/** The entry of one worker in the list. */
export interface Presence {
  /** Tells at once, besides the interval. Not awaited: the next one tells it too. */
  readonly tellNow: () => void;
  /** Takes it off the list. Never rejects. */
  readonly leave: () => Promise<void>;
}

/**
 * Who works on this store, and so who serves an agent. Nothing of a turn depends on it, leases decide: it is there to be
 * looked at, and to tell a producer that nobody is there for its turn.
 */
export class WorkerRegistry {
  readonly #redis: Redis;

  constructor(redis: Redis) {
    this.#redis = redis;
  }

  /** Puts a worker on the list, and tells again and again that it is there. */
  async keep(info: () => Omit<WorkerInfo, "at">): Promise<Presence> {
    // Workers of one process have one id.
    const entry = uuidv7();
    let left = false;
    const tell = async (): Promise<void> => {
      const at = await redisNow(this.#redis);
      if (left) return;
      const told = JSON.stringify({ ...info(), at });
      await effect("workers:tell", () => this.#redis.hset(STORE_KEYS.workers, entry, told));
    };
    await tell();
    // While Redis is away nobody can look at the list either.
    const tellNow = (): void => void tell().catch(() => undefined);
    const timer = setInterval(tellNow, TELL_EVERY_MS);
    timer.unref();
    const leave = async (): Promise<void> => {
      left = true;
      clearInterval(timer);
      await effect("workers:leave", () => this.#redis.hdel(STORE_KEYS.workers, entry)).catch(() => undefined);
    };
    return { tellNow, leave };
  }

  /** The workers that are there; those that have gone without a word are forgotten. */
  async list(): Promise<WorkerInfo[]> {
    const [now, all] = await Promise.all([redisNow(this.#redis), this.#redis.hgetall(STORE_KEYS.workers)]);
    const here: WorkerInfo[] = [];
    const gone: string[] = [];
    for (const [entry, json] of Object.entries(all)) {
      const info = infoOf(json);
      if (info !== undefined && now - info.at < GONE_MS) here.push(info);
      else gone.push(entry);
    }
    if (gone.length > 0) await effect("workers:drop", () => this.#redis.hdel(STORE_KEYS.workers, ...gone));
    return here.toSorted((a, b) => a.startedAt - b.startedAt);
  }
}

/** Whether one of these workers takes turns of this agent; with a lane, in this lane. */
export function isServed(workers: readonly WorkerInfo[], agent: string, lane?: string): boolean {
  return workers.some(
    ({ agents, lanes, closing }) => !closing && agents.includes(agent) && (lane === undefined || lanes.includes(lane)),
  );
}

/** The agents that these workers were to run and cannot, each with its worker and why. */
export function missingOn(workers: readonly WorkerInfo[]): (MissingAgent & { readonly worker: string })[] {
  return workers.flatMap(({ worker, missing }) => missing.map((one) => ({ ...one, worker })));
}

function infoOf(json: string): WorkerInfo | undefined {
  try {
    return WorkerInfo.safeParse(JSON.parse(json)).data;
  } catch {
    return undefined;
  }
}
