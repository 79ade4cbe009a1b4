import type { Batch } from "../batch-handle.ts";
import { isTurnqError, TurnqError } from "../domain/error.ts";
import type { TurnHandle } from "../queue/turn-handle.ts";
import type { Turnq } from "../turnq.ts";

/** What an id stands for. */
export type FoundWork =
  | { readonly kind: "batch"; readonly batch: Batch }
  | { readonly kind: "turn"; readonly turn: TurnHandle };

/** The batch or the turn of this id. Throws `not_found`, or `ambiguous` when there are both. */
export async function findWork(
  turnq: Turnq,
  id: string,
  options: { readonly lane?: string | undefined } = {},
): Promise<FoundWork> {
  const batch = turnq.batch(id);
  const [isBatch, turn] = await Promise.all([batch.exists(), turnOf(turnq, id, options)]);
  if (isBatch && turn !== undefined && options.lane === undefined) {
    throw new TurnqError("ambiguous", "there is a batch and a turn with this id", {
      where: id,
      hint: `For the turn name its lane: --lane ${turn.lane}.`,
    });
  }
  if (turn !== undefined && (!isBatch || options.lane !== undefined)) return { kind: "turn", turn };
  if (isBatch) return { kind: "batch", batch };
  throw new TurnqError("not_found", "there is no such turn or batch", { where: id });
}

async function turnOf(
  turnq: Turnq,
  id: string,
  options: { readonly lane?: string | undefined },
): Promise<TurnHandle | undefined> {
  try {
    return await turnq.turn(id, options);
  } catch (error) {
    if (isTurnqError(error, "not_found")) return undefined;
    throw error;
  }
}
