import { messageOf } from "../domain/error.ts";
import { TurnState } from "../domain/lifecycle.ts";
import { Outcome } from "../domain/turn-result.ts";
import type { LaneUpkeep, Place, Recounted } from "../ledger/upkeep.ts";
import type { KeptLane } from "./reconcile-lane.ts";

/** Batches that one round looks at. */
const PAGE_BATCHES = 50;
/** Batches that one round counts anew: each is read turn by turn. */
const RECOUNTS = 3;
const PAGE_ROWS = 500;

/** Fields that are counted anew, and those that only go up: they show that something has changed meanwhile. */
const COUNTED = [
  ...TurnState.options.map((state) => `s:${state}`),
  ...Outcome.options.map((outcome) => `o:${outcome}`),
  "scored",
  "passed",
] as const;
const WITNESSES = ["turns", "settles", "attempts", "retired"] as const;

export interface CountsReconciled {
  readonly next: Place;
  readonly recounted: number;
}

/**
 * Looks at the sums of some batches from a place on, and counts anew those that disagree and those
 * that are named. Drops batches of which nothing but their counts has been left since `emptySince`.
 */
export async function reconcileCounts(
  kept: KeptLane,
  place: Place,
  named: ReadonlySet<string>,
  emptySince: number,
): Promise<CountsReconciled> {
  const { next, faults } = await kept.upkeep.audit(place, PAGE_BATCHES, emptySince);
  for (const { kind, batch } of faults) if (kind === "old") await kept.upkeep.dropBatch(batch, emptySince);
  const wrong = new Set([...named, ...faults.filter(({ kind }) => kind === "sums").map(({ batch }) => batch)]);
  let recounted = 0;
  for (const batch of [...wrong].slice(0, RECOUNTS)) {
    try {
      if (await recountBatch(kept, batch)) recounted++;
    } catch (error) {
      kept.log.warn(
        { lane: kept.lane.name, batch, error: messageOf(error) },
        "the counts of a batch were not counted anew",
      );
    }
  }
  // What was not reached is seen again when the walk comes by.
  return { next, recounted };
}

/** Counts a batch's turns anew, page by page; true when its counts were wrong and are right now. */
async function recountBatch({ upkeep, lane, log }: KeptLane, batch: string): Promise<boolean> {
  const gone = await goneTurns(upkeep, batch);
  if (gone.length > 0) {
    log.error(
      { lane: lane.name, batch, turns: gone.slice(0, 10), count: gone.length },
      "turns of a batch are gone from Redis: no Result of them will come",
    );
    for (let from = 0; from < gone.length; from += PAGE_ROWS)
      await upkeep.takeOut(batch, gone.slice(from, from + PAGE_ROWS));
  }
  const before = await upkeep.batchFields(batch);
  const due = await countOf(upkeep, batch, before);
  if (due === undefined) return false;
  const fields: Recounted[] = [
    ...WITNESSES.map((field) => ({ field, found: before[field] ?? "", due: before[field] ?? "0" })),
    ...COUNTED.map((field) => ({ field, found: before[field] ?? "", due: String(due.get(field) ?? 0) })),
  ];
  const wrong = fields.filter(({ found, due: right }) => Number(found) !== Number(right));
  if (wrong.length === 0) return gone.length > 0;
  const corrected = await upkeep.recount(batch, fields);
  if (corrected) log.warn({ lane: lane.name, batch, wrong }, "the counts of a batch were wrong and were corrected");
  return corrected;
}

async function goneTurns(upkeep: LaneUpkeep, batch: string): Promise<string[]> {
  const gone: string[] = [];
  for (let after = 0; ;) {
    const { next, rows } = await upkeep.batchRows(batch, after, PAGE_ROWS, []);
    if (rows.length === 0) return gone;
    after = next;
    for (const { turn, fields } of rows) if (fields === "gone") gone.push(turn);
  }
}

/** The counts as the rows say; undefined when a row cannot be read, since nothing is known of it then. */
async function countOf(
  upkeep: LaneUpkeep,
  batch: string,
  before: Readonly<Record<string, string>>,
): Promise<ReadonlyMap<string, number> | undefined> {
  const counts = new Map<string, number>();
  const add = (field: string, by: number): void => void counts.set(field, (counts.get(field) ?? 0) + by);
  // What was retired stays in the counts.
  const kept = (field: string): number => Number(before[field] ?? 0);
  add("s:settled", kept("retired"));
  for (const outcome of Outcome.options) add(`o:${outcome}`, kept(`r:${outcome}`));
  for (const field of ["scored", "passed"]) add(field, kept(`r:${field}`));
  for (let after = 0; ;) {
    const { next, rows } = await upkeep.batchRows(batch, after, PAGE_ROWS, ["outcome", "scored", "passed"]);
    if (rows.length === 0) return counts;
    after = next;
    for (const { fields } of rows) {
      if (typeof fields === "string") return undefined;
      const [state, outcome, scored, passed] = fields;
      add(`s:${state}`, 1);
      if (outcome !== null && outcome !== undefined) add(`o:${outcome}`, 1);
      if (scored === "1") add("scored", 1);
      if (passed === "1") add("passed", 1);
    }
  }
}
