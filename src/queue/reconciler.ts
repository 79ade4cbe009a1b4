import { randomUUID } from "node:crypto";
import { messageOf } from "../domain/error.ts";
import type { LaneUpkeep } from "../ledger/upkeep.ts";
import { EVENTS_MAX } from "./lane-set.ts";
import { reconcileCounts } from "./reconcile-counts.ts";
import { reconcileRows, type KeptLane } from "./reconcile-lane.ts";
import { COUNTS_KEPT_TIMES, RETENTION, removeStrays, retire, type KeptFor, type Retention } from "./retention.ts";

/** How often a lane is looked after, in ms. */
const EVERY_MS = 10_000;
/** How long a claim to do so holds, as a share of that: one round may be missed. */
const CLAIM_TIMES = 2;
/** Corrupt turns that are remembered, so that each is reported once. */
const REPORTED_MAX = 1000;

export interface ReconcilerOptions extends KeptLane {
  /** All lanes of the store, for batches that are in several. */
  readonly otherLanes: () => Promise<readonly LaneUpkeep[]>;
  readonly retention?: Retention | undefined;
  /** Called in every round, also where another worker looks after the lane: for what each worker renews by itself. */
  readonly onRound?: (() => Promise<void>) | undefined;
  readonly everyMs?: number | undefined;
}

/** What one round did. */
export interface Round {
  /** False when another worker looks after the lane. */
  readonly claimed: boolean;
  /** Unsettled rows that were looked at. */
  readonly rows: number;
  /** Turns that got a job back, indexes and sessions put right, batches counted anew, expired turns settled. */
  readonly jobs: number;
  readonly mended: number;
  readonly recounted: number;
  readonly expired: number;
  /** Turns whose row cannot be read. */
  readonly corrupt: number;
  /** Settled turns that were removed. */
  readonly retired: number;
}

const NOTHING: Round = {
  claimed: false,
  rows: 0,
  jobs: 0,
  mended: 0,
  recounted: 0,
  expired: 0,
  corrupt: 0,
  retired: 0,
};

/**
 * Looks after one lane: heals what nothing else would, and removes what is too old. One of the
 * lane's workers does it at a time, in bounded rounds that go on where the last one ended. It
 * judges by what is stored, never by events.
 */
export class Reconciler {
  readonly #options: ReconcilerOptions;
  readonly #holder = randomUUID();
  readonly #everyMs: number;
  readonly #retention: KeptFor;
  readonly #reported = new Set<string>();
  #emptied: readonly string[] = [];
  #timer: NodeJS.Timeout | undefined;
  #stopped = false;

  constructor(options: ReconcilerOptions) {
    this.#options = options;
    this.#everyMs = options.everyMs ?? EVERY_MS;
    this.#retention = {
      maxAgeMs: options.retention?.maxAgeMs ?? RETENTION.maxAgeMs,
      maxSettled: options.retention?.maxSettled ?? RETENTION.maxSettled,
    };
  }

  start(): void {
    if (this.#stopped) return;
    this.#timer = setTimeout(() => void this.#beat().finally(() => this.start()), this.#everyMs);
    this.#timer.unref();
  }

  /** No round begins any more, and another worker may look after the lane at once. */
  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    await this.#options.upkeep.giveUp(this.#holder);
  }

  async #beat(): Promise<void> {
    try {
      await this.round();
    } catch (error) {
      this.#options.log.debug(
        { lane: this.#options.lane.name, error: messageOf(error) },
        "a lane was not looked after",
      );
    }
  }

  /** One round, unless another worker looks after the lane. */
  async round(): Promise<Round> {
    const { upkeep, log, lane, onRound, otherLanes } = this.#options;
    await onRound?.();
    const places = await upkeep.claim(this.#holder, this.#everyMs * CLAIM_TIMES);
    if (places === undefined) return NOTHING;
    await upkeep.rebind(this.#emptied);
    // A tool that has opened or obliterated the queue may have set another bound, or none.
    await lane.queue.trimEvents(EVENTS_MAX);
    const rows = await reconcileRows(this.#options, places.scanPlace);
    this.#report(rows.corrupt);
    const emptySince = (await upkeep.now()) - COUNTS_KEPT_TIMES * this.#retention.maxAgeMs;
    const counts = await reconcileCounts(this.#options, places.batchPlace, rows.batches, emptySince);
    const retired = await retire(this.#options, otherLanes, this.#retention, places.agedPlace);
    // Looked at once more in the next round: a turn of it may be on its way.
    this.#emptied = await upkeep.unbind([...retired.sessions]);
    const strayPlace = await removeStrays(this.#options, this.#retention, places.strayPlace);
    const repairs = rows.jobs + rows.mended + rows.expired + counts.recounted;
    await upkeep.note(randomUUID(), repairs, {
      scanPlace: rows.next,
      agedPlace: retired.next,
      batchPlace: counts.next,
      strayPlace,
    });
    if (retired.turns > 0) log.info({ lane: lane.name, turns: retired.turns }, "old turns were removed");
    const { jobs, mended, expired } = rows;
    return {
      claimed: true,
      rows: rows.rows,
      jobs,
      mended,
      expired,
      recounted: counts.recounted,
      corrupt: rows.corrupt.size,
      retired: retired.turns,
    };
  }

  #report(corrupt: ReadonlySet<string>): void {
    for (const turn of corrupt) {
      if (this.#reported.has(turn) || this.#reported.size >= REPORTED_MAX) continue;
      this.#reported.add(turn);
      this.#options.log.warn(
        { lane: this.#options.lane.name, turn },
        "the stored row of a turn cannot be read: it is passed over",
      );
    }
  }
}
