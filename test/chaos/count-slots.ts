import { setTimeout as sleep } from "node:timers/promises";
import type { Redis } from "ioredis";
import type { TurnHandle } from "../../src/queue/turn-handle.ts";
import type { Turnq } from "../../src/turnq.ts";
import type { SlotCount } from "./evidence.ts";
import { activeJobs } from "./gather.ts";
import { CAPPED_CONCURRENCY } from "./plan.ts";
import { readTruth } from "./truth.ts";

/** How long all slots may take to be filled, and to be empty again, in ms. */
const WAIT_MS = 20_000;

export interface SlotsToCount {
  readonly turnq: Turnq;
  readonly redis: Redis;
  /** The truth file. */
  readonly truth: string;
  readonly workers: number;
  /** Of each worker. */
  readonly concurrency: number;
}

/** Fills the slots with turns that stay, once those of a lane with a limit and once those of all workers, and counts them. */
export async function countSlots(what: SlotsToCount): Promise<SlotCount[]> {
  const capped = await fill(what, "capped-probe", CAPPED_CONCURRENCY);
  const all = await fill(what, "probe", what.workers * what.concurrency);
  return [
    { what: "in the lane with a limit", due: CAPPED_CONCURRENCY, got: capped },
    { what: "over all workers", due: what.workers * what.concurrency, got: all },
  ];
}

async function fill({ turnq, redis, truth }: SlotsToCount, agent: string, due: number): Promise<number> {
  const turns: TurnHandle[] = [];
  // One more than there are slots: it must wait.
  for (let i = 0; i <= due; i += 1)
    turns.push(
      await turnq.submit({ id: `${agent}-${i}`, agent, input: "stay", options: { truth }, limits: { graceMs: 2000 } }),
    );
  const startedOf = async (): Promise<number> =>
    (await readTruth(truth)).filter(({ what, turn }) => what === "start" && turn.startsWith(`${agent}-`)).length;
  for (const givenUpAt = Date.now() + WAIT_MS; Date.now() < givenUpAt; await sleep(50)) {
    if ((await startedOf()) >= due) break;
  }
  const got = await startedOf();
  // Those that wait first: none of them shall start now.
  for (const turn of turns.toReversed()) await turn.cancel();
  for (const turn of turns) await turn.result({ waitMs: WAIT_MS });
  for (const givenUpAt = Date.now() + WAIT_MS; Date.now() < givenUpAt; await sleep(50)) {
    if ((await activeJobs(redis)) === 0) break;
  }
  return got;
}
