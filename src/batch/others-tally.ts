import { z } from "zod";
import { addUsage, NO_USAGE, Usage } from "../domain/usage.ts";

const count = z.number().int().nonnegative();

/** Turns that are not of the batch of a run, and of which batches they are. */
const Counted = z.object({
  turns: count,
  batches: z.record(z.string(), count),
  noBatch: count,
  /** Turns of batches that are not named. */
  unnamed: count.optional(),
});

/** What a run did for others: its worker takes what is in its lanes. */
export const Others = Counted.extend({
  attempts: count,
  usage: Usage,
  /** What waited when it began. */
  waited: Counted,
});
export type Others = z.infer<typeof Others>;
export type CountedOthers = z.infer<typeof Counted>;

/** Batches that are named; turns of more are counted together. */
const BATCHES_NAMED = 100;

/** An attempt as it is tallied. */
export interface OthersAttempt {
  readonly batch?: string | undefined;
  readonly usage: Usage;
  /** True for the first attempt of its turn. */
  readonly first: boolean;
  /** True for usage alone, of an attempt that was tallied before. */
  readonly late: boolean;
}

/** Sums the attempts of others, in bounded memory. */
export class OthersTally {
  readonly #batches = new Map<string, number>();
  #noBatch = 0;
  #unnamed = 0;
  #attempts = 0;
  #usage: Usage | undefined;

  add({ batch, usage, first, late }: OthersAttempt): void {
    this.#usage = this.#usage === undefined ? usage : addUsage(this.#usage, usage);
    if (!late) this.#attempts += 1;
    if (!first) return;
    if (batch === undefined) this.#noBatch += 1;
    else if (this.#batches.has(batch) || this.#batches.size < BATCHES_NAMED)
      this.#batches.set(batch, (this.#batches.get(batch) ?? 0) + 1);
    else this.#unnamed += 1;
  }

  /** What was done for others; undefined when nothing was, and nothing of theirs waited. */
  others(waited: CountedOthers): Others | undefined {
    if (this.#attempts === 0 && waited.turns === 0) return undefined;
    const named = [...this.#batches.values()].reduce((sum, turns) => sum + turns, 0);
    return {
      turns: named + this.#noBatch + this.#unnamed,
      batches: Object.fromEntries(this.#batches),
      noBatch: this.#noBatch,
      ...(this.#unnamed === 0 ? {} : { unnamed: this.#unnamed }),
      attempts: this.#attempts,
      usage: { ...(this.#usage ?? NO_USAGE) },
      waited,
    };
  }
}
