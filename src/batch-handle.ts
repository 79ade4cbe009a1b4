import { resultLine, type ResultLine } from "./batch/result-line.ts";
import { SpendFold, type Spend } from "./batch/spend.ts";
import { TurnqError } from "./domain/error.ts";
import type { BatchView, FollowOptions } from "./queue/batch-view.ts";
import type { BatchCounts } from "./ledger/ledger.ts";
import type { Retried } from "./queue/retry.ts";

/** A batch's counts, and how many of its turns wait for the lease of a dead worker to end. */
export interface BatchProgress extends BatchCounts {
  readonly batch: string;
  readonly overdue: number;
}

export interface ResultsOptions extends FollowOptions {
  /** Whether a line holds the turn's messages. */
  readonly messages?: boolean | undefined;
}

/** What a batch needs of the store beside its view. */
export interface BatchPort {
  readonly retryTurn: (turn: string, lane: string) => Promise<Retried>;
  /** What a fault of Redis means to the caller. */
  readonly errorOf: (error: unknown) => unknown;
}

/** Turns that were submitted together, from any process. Its calls throw `redis_unreachable` and `redis_refused`. */
export class Batch {
  readonly id: string;
  readonly #view: BatchView;
  readonly #port: BatchPort;

  constructor(id: string, view: BatchView, port: BatchPort) {
    this.id = id;
    this.#view = view;
    this.#port = port;
  }

  /** Where the batch is. Throws `not_found`. */
  async progress(): Promise<BatchProgress> {
    const [counts, overdue] = await this.#asked(() => Promise.all([this.#view.counts(), this.#view.overdue()]));
    if (counts === undefined)
      throw new TurnqError("not_found", "there is no such batch", { where: `batch ${this.id}` });
    return { batch: this.id, overdue, ...counts };
  }

  /** The lanes that its turns are in. */
  async lanes(): Promise<string[]> {
    return this.#asked(() => this.#view.lanes());
  }

  /** True when any turn of it was ever submitted. */
  async exists(): Promise<boolean> {
    return (await this.#asked(() => this.#view.counts())) !== undefined;
  }

  /** The result lines of its settled turns in the order of settling; with `follow` until all are settled. */
  async *results(options: ResultsOptions = {}): AsyncGenerator<ResultLine> {
    try {
      for await (const { request, result } of this.#view.settled(options)) {
        yield resultLine(request, result, options.messages === true ? { messages: result.messages } : {});
      }
    } catch (error) {
      throw this.#port.errorOf(error);
    }
  }

  /** What each agent's attempts came to, over all generations, open turns and late spend included. Reads every turn. */
  async spendByAgent(): Promise<ReadonlyMap<string, Spend>> {
    return this.#asked(async () => {
      const fold = new SpendFold();
      for await (const { agent, attempts } of this.#view.attempts()) fold.add(agent, attempts);
      return fold.byAgent;
    });
  }

  /** Opens a new generation of every turn that failed or expired; answers how many. Turns that are not settled stay as they are. */
  async retry(): Promise<number> {
    return this.#asked(async () => {
      let retried = 0;
      for await (const rows of this.#view.rows()) {
        // One after the other: a session's turns go on in the order in which they were submitted.
        for (const { id, lane, outcome } of rows) {
          if (outcome !== "failed" && outcome !== "expired") continue;
          if ((await this.#port.retryTurn(id, lane)).kind === "opened") retried++;
        }
      }
      return retried;
    });
  }

  async #asked<T>(call: () => Promise<T>): Promise<T> {
    try {
      return await call();
    } catch (error) {
      throw this.#port.errorOf(error);
    }
  }
}
