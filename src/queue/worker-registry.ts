import type { Redis } from "ioredis";
import { v7 as uuidv7 } from "uuid";
import { z } from "zod";
import { STORE_KEYS } from "../ledger/keys.ts";
import { effect } from "../pause/effect.ts";

/** A worker as it says of itself. */
export const WorkerInfo = z.object({
  /** Its process's; workers of one process share it. */
  worker: z.string(),
  agents: z.array(z.string()),
  lanes: z.array(z.string()),
  concurrency: z.number(),
  /** Attempts that it runs. */
  running: z.number(),
  /** Epoch ms. */
  startedAt: z.number(),
  /** When it said so, epoch ms by its own clock. */
  at: z.number(),
});
export type WorkerInfo = z.infer<typeof WorkerInfo>;

/** How often a worker tells that it is there, in ms. */
const TELL_EVERY_MS = 5000;
/** One that has told nothing for so long is gone, in ms. */
const GONE_MS = 20_000;

/** Who works on this store. For people to look at: nothing depends on it, leases decide. */
export class WorkerRegistry {
  readonly #redis: Redis;

  constructor(redis: Redis) {
    this.#redis = redis;
  }

  /** Tells again and again that a worker is here. The answer ends that, and takes it off the list. Neither throws. */
  keep(info: () => Omit<WorkerInfo, "at">): () => Promise<void> {
    // Workers of one process have one id.
    const entry = uuidv7();
    const tell = async (): Promise<void> => {
      const told = info();
      await effect("workers:tell", () =>
        this.#redis.hset(STORE_KEYS.workers, entry, JSON.stringify({ ...told, at: Date.now() })),
      );
    };
    // While Redis is away nobody can look at the list either.
    const quietly = (): void => void tell().catch(() => undefined);
    quietly();
    const timer = setInterval(quietly, TELL_EVERY_MS);
    timer.unref();
    return async () => {
      clearInterval(timer);
      await effect("workers:leave", () => this.#redis.hdel(STORE_KEYS.workers, entry)).catch(() => undefined);
    };
  }

  /** The workers that are there; those that have gone without a word are forgotten. */
  async list(now = Date.now()): Promise<WorkerInfo[]> {
    const all = await this.#redis.hgetall(STORE_KEYS.workers);
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

function infoOf(json: string): WorkerInfo | undefined {
  try {
    return WorkerInfo.safeParse(JSON.parse(json)).data;
  } catch {
    return undefined;
  }
}
