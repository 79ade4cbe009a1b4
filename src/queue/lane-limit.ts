import type { LaneQueue } from "./lane-set.ts";

/** How long an answer holds, in ms: a limit is set when a worker starts, and seldom later. */
const KNOWN_MS = 10_000;

/** Whether a lane has a limit of turns at once over all workers, whoever set it. */
export class LaneLimit {
  readonly #queue: Pick<LaneQueue, "getGlobalConcurrency">;
  readonly #now: () => number;
  #known: Promise<number | null> | undefined;
  #knownAt = 0;

  constructor(queue: Pick<LaneQueue, "getGlobalConcurrency">, now: () => number = () => performance.now()) {
    this.#queue = queue;
    this.#now = now;
  }

  /** Rejects when Redis does. */
  async isSet(): Promise<boolean> {
    if (this.#known === undefined || this.#now() - this.#knownAt > KNOWN_MS) {
      this.#knownAt = this.#now();
      this.#known = this.#queue.getGlobalConcurrency();
      this.#known.catch(() => (this.#known = undefined));
    }
    return (await this.#known) !== null;
  }
}
