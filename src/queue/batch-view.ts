import { setTimeout as sleep } from "node:timers/promises";
import { TurnState } from "../domain/lifecycle.ts";
import type { StoredRequest } from "../domain/turn-request.ts";
import { Outcome, type TurnResult } from "../domain/turn-result.ts";
import { addUsage } from "../domain/usage.ts";
import type { BatchCounts, ClosedAttempt, ClosedGate, LaneLedger, TurnRow } from "../ledger/ledger.ts";
import type { LaneSet } from "./lane-set.ts";
import { otherTurns, type OthersWanted, type OtherTurns } from "./other-turns.ts";

const PAGE = 200;
/** How often a batch that is followed is looked at, in ms. */
const LOOK_EVERY_MS = 200;

/** A settled turn of a batch. */
export interface SettledTurn {
  readonly request: StoredRequest;
  readonly result: TurnResult;
}

export interface FollowOptions {
  /** Go on until every turn of the batch is settled. */
  readonly follow?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Only turns that ended so; all unless given. */
  readonly outcomes?: readonly Outcome[] | undefined;
  /** Where to go on reading, and where reading ended; from the start unless given. */
  readonly place?: BatchPlace | undefined;
}

/** How far the settled turns of a batch were read, by lane. Reading moves it on, page by page. */
export type BatchPlace = Map<string, number>;

/** Reads a batch over all the lanes that hold turns of it. */
export class BatchView {
  readonly #lanes: LaneSet;
  readonly batch: string;

  constructor(lanes: LaneSet, batch: string) {
    this.#lanes = lanes;
    this.batch = batch;
  }

  /** The batch's counts over its lanes; undefined when no lane knows it. */
  async counts(): Promise<BatchCounts | undefined> {
    const [first, ...rest] = (await this.#holding()).map(({ counts }) => counts);
    return first === undefined ? undefined : rest.reduce(addCounts, first);
  }

  /** The lanes that hold turns of the batch. */
  async lanes(): Promise<string[]> {
    return (await this.#holding()).map(({ ledger }) => ledger.lane);
  }

  /** What waits in these lanes and is not of the batch. */
  others(wanted: OthersWanted): Promise<OtherTurns> {
    return otherTurns(this.#lanes, this.batch, wanted);
  }

  /** Open attempts of dead workers in the batch's lanes. */
  async overdue(): Promise<number> {
    const counts = await Promise.all((await this.#holding()).map(({ ledger }) => ledger.overdue()));
    return counts.reduce((sum, count) => sum + count, 0);
  }

  /** The closed gates of the batch's lanes. */
  async gates(): Promise<(ClosedGate & { readonly lane: string })[]> {
    const all = await Promise.all(
      (await this.#holding()).map(async ({ ledger }) => ({ lane: ledger.lane, gate: await ledger.gate() })),
    );
    return all.flatMap(({ lane, gate }) => (gate === undefined ? [] : [{ lane, ...gate }]));
  }

  /** The batch's turns that are settled, each once, in the order of settling. */
  async *settled(options: FollowOptions = {}): AsyncGenerator<SettledTurn> {
    const places: BatchPlace = options.place ?? new Map<string, number>();
    for (;;) {
      // Counted before the pages are read: what settles in between is on a page of the next round.
      const counts = await this.counts();
      let found = 0;
      for (const ledger of await this.#ledgers()) {
        const page = await ledger.batchSettled(this.batch, places.get(ledger.lane) ?? 0, PAGE);
        found += page.turns.length;
        yield* this.#read(ledger, page.turns, options.outcomes);
        // Only now: a reader who failed in the middle of a page gets it again.
        places.set(ledger.lane, page.next);
      }
      if (found > 0) continue;
      const open = counts === undefined || counts.states.settled < counts.turns;
      if (options.follow !== true || !open || options.signal?.aborted === true) return;
      await sleep(LOOK_EVERY_MS, undefined, { signal: options.signal }).catch(() => undefined);
    }
  }

  /** Every turn of the batch, in the order of submission lane by lane, some at once. */
  async *rows(): AsyncGenerator<readonly TurnRow[]> {
    for (const { ledger } of await this.#holding()) {
      for (let after = 0; ;) {
        const page = await ledger.batchTurns(this.batch, after, PAGE);
        if (page.turns.length === 0) break;
        after = page.next;
        yield (await ledger.rows(page.turns)).filter((row) => row !== undefined);
      }
    }
  }

  /** The closed attempts of every turn of the batch, over all generations, with the turn's agent. */
  async *attempts(): AsyncGenerator<{ readonly agent: string; readonly attempts: readonly ClosedAttempt[] }> {
    for await (const rows of this.rows()) {
      const page = await Promise.all(
        rows.map(async ({ id, lane, agent }) => {
          const { attempts } = await this.#lanes.get(lane).ledger.facts(id);
          return { agent, attempts };
        }),
      );
      yield* page;
    }
  }

  async *#read(
    ledger: LaneLedger,
    turns: readonly string[],
    outcomes: readonly Outcome[] = Outcome.options,
  ): AsyncGenerator<SettledTurn> {
    const rows = (await ledger.rows(turns)).filter((row) => row?.state === "settled");
    const settled = rows.flatMap((row) =>
      // A row that cannot say how it ended must not hide its Result.
      row === undefined || !outcomes.includes(row.outcome ?? "failed")
        ? []
        : [{ turn: row.id, generation: row.generation }],
    );
    const results = await ledger.results(settled);
    const requests = await ledger.requests(settled.map(({ turn }) => turn));
    for (const [i, result] of results.entries()) {
      const request = requests[i];
      if (result !== undefined && request !== undefined) yield { request, result };
    }
  }

  /** The lanes that hold turns of the batch, with its counts there. */
  async #holding(): Promise<{ readonly ledger: LaneLedger; readonly counts: BatchCounts }[]> {
    const ledgers = await this.#ledgers();
    const all = await Promise.all(ledgers.map((ledger) => ledger.batchCounts(this.batch)));
    return ledgers.flatMap((ledger, i) => {
      const counts = all[i];
      return counts === undefined ? [] : [{ ledger, counts }];
    });
  }

  async #ledgers(): Promise<LaneLedger[]> {
    return (await this.#lanes.names()).map((name) => this.#lanes.get(name).ledger);
  }
}

function addCounts(a: BatchCounts, b: BatchCounts): BatchCounts {
  const sum = <K extends string>(
    names: readonly K[],
    x: Readonly<Record<K, number>>,
    y: Readonly<Record<K, number>>,
  ): Record<K, number> => Object.fromEntries(names.map((name) => [name, x[name] + y[name]])) as Record<K, number>;
  return {
    turns: a.turns + b.turns,
    states: sum(TurnState.options, a.states, b.states),
    outcomes: sum(Outcome.options, a.outcomes, b.outcomes),
    attempts: a.attempts + b.attempts,
    crashedAttempts: a.crashedAttempts + b.crashedAttempts,
    scored: a.scored + b.scored,
    passed: a.passed + b.passed,
    ...(a.retired === undefined && b.retired === undefined ? {} : { retired: (a.retired ?? 0) + (b.retired ?? 0) }),
    usage: addUsage(a.usage, b.usage),
  };
}
