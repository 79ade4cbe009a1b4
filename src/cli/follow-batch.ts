import { setTimeout as sleep } from "node:timers/promises";
import type { ResultLine } from "../batch/result-line.ts";
import type { Batch, ResultsOptions } from "../batch-handle.ts";
import { isTurnqError, TurnqError } from "../domain/error.ts";
import type { BatchPlace } from "../queue/batch-view.ts";

/** How long Redis is left alone after it did not answer, in ms. */
const AGAIN_MS = 500;

export interface FollowBatchOptions {
  readonly messages?: boolean | undefined;
  readonly place: BatchPlace;
  readonly signal: AbortSignal;
  /** Called once for each stretch of time in which Redis does not answer, and with false at its end. Must not throw. */
  readonly onAway?: ((away: boolean) => void) | undefined;
  /** False when Redis cannot come back, as when its folder was deleted. */
  readonly mayReturn?: (() => boolean) | undefined;
}

/**
 * The results of a batch as they come, until all its turns are settled or it is aborted. While Redis
 * is away it waits: what runs goes on meanwhile, and must not be given up for want of an answer.
 */
export async function* followBatch(
  batch: Pick<Batch, "results" | "exists">,
  options: FollowBatchOptions,
): AsyncGenerator<ResultLine> {
  const { signal, onAway } = options;
  const asked: ResultsOptions = { follow: true, signal, messages: options.messages, place: options.place };
  let away = false;
  for (;;) {
    try {
      // Whether Redis is back shows here: the next result may take long.
      if (away) {
        if (!(await batch.exists())) throw new TurnqError("not_found", "Redis is back without the batch");
        onAway?.((away = false));
      }
      yield* batch.results(asked);
      return;
    } catch (error) {
      if (signal.aborted) return;
      if (!passes(error) || options.mayReturn?.() === false) throw error;
      if (!away) onAway?.((away = true));
      await sleep(AGAIN_MS, undefined, { signal }).catch(() => undefined);
    }
  }
}

/** Faults that end by themselves: Redis is restarted, loads its data or fails over. */
function passes(error: unknown): boolean {
  if (isTurnqError(error, "redis_unreachable")) return true;
  return isTurnqError(error, "redis_refused") && /LOADING|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|BUSY/.test(error.message);
}
