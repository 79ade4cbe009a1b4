import type { ClosedGate, LaneCounts } from "../ledger/ledger.ts";
import type { BatchCounts } from "../ledger/ledger.ts";
import { BatchView } from "./batch-view.ts";
import type { LaneSet } from "./lane-set.ts";

/** A lane as lists show it. */
export interface LaneInfo extends LaneCounts {
  readonly lane: string;
  /** Set while nobody may start: a provider's limit. */
  readonly gate?: ClosedGate | undefined;
  /** Turns at once over all workers, where that is limited. */
  readonly concurrency?: number | undefined;
}

/** The lanes of the store, by name. */
export async function listLanes(lanes: LaneSet): Promise<LaneInfo[]> {
  return Promise.all(
    (await lanes.names()).map(async (lane) => {
      const { ledger, queue } = lanes.get(lane);
      const [counts, gate, concurrency] = await Promise.all([
        ledger.laneCounts(),
        ledger.gate(),
        queue.getGlobalConcurrency(),
      ]);
      return {
        lane,
        ...counts,
        ...(gate === undefined ? {} : { gate }),
        ...(concurrency === null ? {} : { concurrency }),
      };
    }),
  );
}

/** A batch as lists show it. */
export interface BatchInfo extends BatchCounts {
  readonly batch: string;
  /** When its first turn was submitted, epoch ms. */
  readonly submittedAt: number;
}

/** The newest batches of the store. */
export async function listBatches(lanes: LaneSet, limit: number): Promise<BatchInfo[]> {
  const first = new Map<string, number>();
  const all = await Promise.all((await lanes.names()).map((lane) => lanes.get(lane).ledger.batches(limit)));
  for (const { batch, at } of all.flat()) first.set(batch, Math.min(at, first.get(batch) ?? at));
  const newest = [...first].toSorted(([, a], [, b]) => b - a).slice(0, limit);
  const found: BatchInfo[] = [];
  for (const [batch, submittedAt] of newest) {
    const counts = await new BatchView(lanes, batch).counts();
    if (counts !== undefined) found.push({ batch, submittedAt, ...counts });
  }
  return found;
}
