import { FAILED, FailureTally, type Failures } from "./batch/failure-tally.ts";
import { resultLine, type ResultLine } from "./batch/result-line.ts";
import { SpendFold, type Spend } from "./batch/spend.ts";
import { TurnqError } from "./domain/error.ts";
import type { BatchView, FollowOptions } from "./queue/batch-view.ts";
import { cancelMany, type CancelOptions, type CancelProgress } from "./queue/cancel.ts";
import type { BatchCounts, ClosedGate, LaneLedger, TurnRow } from "./ledger/ledger.ts";
import type { OthersWanted, OtherTurns } from "./queue/other-turns.ts";
import type { Retried } from "./queue/retry.ts";
import type { Unserved } from "./queue/served-agents.ts";

/** A batch's counts, and how many of its turns wait for the lease of a dead worker to end. */
export interface BatchProgress extends BatchCounts {
  readonly batch: string;
  readonly overdue: number;
  /** The closed gates of its lanes: turns that wait on a provider's limit. */
  readonly gates: readonly (ClosedGate & { readonly lane: string })[];
}

export interface ResultsOptions extends FollowOptions {
  /** Whether a line holds the turn's messages. */
  readonly messages?: boolean | undefined;
}

/** Which settled turns of a batch are run again. */
export interface RetryWhich {
  /** Those that failed or expired. */
  readonly failed?: boolean | undefined;
  /** Those that ended well and did not pass their checks. */
  readonly missed?: boolean | undefined;
  readonly cancelled?: boolean | undefined;
}

function isWanted({ outcome, passed }: TurnRow, { failed, missed, cancelled }: RetryWhich): boolean {
  if (outcome === "failed" || outcome === "expired") return failed === true;
  if (outcome === "cancelled") return cancelled === true;
  return outcome === "ok" && passed === false && missed === true;
}

/** What a batch needs of the store beside its view. */
export interface BatchPort {
  readonly ledgerOf: (lane: string) => LaneLedger;
  readonly retryTurn: (turn: string, lane: string) => Promise<Retried>;
  /** What a fault of Redis means to the caller. */
  readonly errorOf: (error: unknown) => unknown;
}

/** Turns that were submitted together, from any process. Its calls throw `redis_unreachable` and `redis_refused`. */
export class Batch {
  readonly id: string;
  /** Set by a submit: agents of its turns that no worker which was up then runs. Their turns are stored, and wait for one. */
  readonly unserved: readonly Unserved[];
  readonly #view: BatchView;
  readonly #port: BatchPort;

  /** @internal */
  constructor(id: string, view: BatchView, port: BatchPort, unserved: readonly Unserved[] = []) {
    this.id = id;
    this.unserved = unserved;
    this.#view = view;
    this.#port = port;
  }

  /** Where the batch is. Throws `not_found`. */
  async progress(): Promise<BatchProgress> {
    const [counts, overdue, gates] = await this.#asked(() =>
      Promise.all([this.#view.counts(), this.#view.overdue(), this.#view.gates()]),
    );
    if (counts === undefined)
      throw new TurnqError("not_found", "there is no such batch", { where: `batch ${this.id}` });
    return { batch: this.id, overdue, gates, ...counts };
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

  /** What waits in these lanes, for these agents, that is not of the batch: a worker that is started for it runs that too. */
  async others(wanted: OthersWanted): Promise<OtherTurns> {
    return this.#asked(() => this.#view.others(wanted));
  }

  /** Why turns failed or expired: by the failure's code how many, and what the first of them said. Reads the Results of these only. */
  async failures(): Promise<Failures> {
    return this.#asked(async () => {
      const tally = new FailureTally();
      for await (const { result } of this.#view.settled({ outcomes: FAILED })) tally.add(result);
      return tally.failures;
    });
  }

  /** What each agent's attempts came to, over all generations, open turns and late spend included. Reads every turn. */
  async spendByAgent(): Promise<ReadonlyMap<string, Spend>> {
    return this.#asked(async () => {
      const fold = new SpendFold();
      for await (const { agent, attempts } of this.#view.attempts()) fold.add(agent, attempts);
      return fold.byAgent;
    });
  }

  /**
   * Cancels every turn that is not settled, and tells how far it is; the last of it is the outcome. Ended early it may
   * be called again. Throws `not_found`.
   */
  async *cancel(options: CancelOptions = {}): AsyncGenerator<CancelProgress> {
    try {
      if ((await this.#view.counts()) === undefined)
        throw new TurnqError("not_found", "there is no such batch", { where: `batch ${this.id}` });
      yield* cancelMany(this.#view.rows(), this.#port.ledgerOf, options);
    } catch (error) {
      throw this.#port.errorOf(error);
    }
  }

  /**
   * Opens a new generation of every turn that failed or expired, or of what `which` names; answers how many. Turns that
   * are not settled stay as they are.
   */
  async retry(which: RetryWhich = { failed: true }): Promise<number> {
    return this.#asked(async () => {
      let retried = 0;
      for await (const rows of this.#view.rows()) {
        // One after the other: a session's turns go on in the order in which they were submitted.
        for (const row of rows) {
          if (!isWanted(row, which)) continue;
          if ((await this.#port.retryTurn(row.id, row.lane)).kind === "opened") retried++;
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
