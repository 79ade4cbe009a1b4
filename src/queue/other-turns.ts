import type { TurnState } from "../domain/lifecycle.ts";
import type { LaneLedger, StatePlace, TurnRow } from "../ledger/ledger.ts";
import type { LaneSet } from "./lane-set.ts";

/** Turns that a worker of a batch would run beside it. */
export interface OtherTurns {
  /** All that wait: also delayed ones, those parked behind their session, and those of a worker that is gone. */
  readonly turns: number;
  /** How many of each batch, the most first. */
  readonly batches: ReadonlyMap<string, number>;
  readonly noBatch: number;
  /** Of the turns without a batch, a few by name. */
  readonly named: readonly string[];
  /** Turns of more batches than were looked at, or of none. */
  readonly unnamed: number;
  /** False where too many wait to look at each: some may be of agents that the worker does not have. */
  readonly exact: boolean;
}

/** Which turns are meant. */
export interface OthersWanted {
  /** The lanes that the worker takes turns from. */
  readonly lanes: Iterable<string>;
  /** The agents that it has; turns of others are left for another worker. */
  readonly agents: ReadonlySet<string>;
}

const WAITING: readonly TurnState[] = ["waiting", "delayed", "parked"];
const PAGE = 100;
/** Turns that are looked at one by one in a lane, and batches of which the counts are read. */
export const LOOKED_AT = 1000;
/** Turns without a batch that are named. */
const NAMED = 3;

const NONE: OtherTurns = { turns: 0, batches: new Map(), noBatch: 0, named: [], unnamed: 0, exact: true };

/** What waits in these lanes that is not of the batch. Reads at most {@link LOOKED_AT} rows a lane, else the counts of batches. */
export async function otherTurns(lanes: LaneSet, batch: string, wanted: OthersWanted): Promise<OtherTurns> {
  const all = await Promise.all(
    [...new Set(wanted.lanes)].map((lane) => othersOfLane(lanes.get(lane).ledger, batch, wanted.agents)),
  );
  const { batches, ...sums } = all.reduce(added, NONE);
  return { ...sums, batches: new Map([...batches].toSorted(([, a], [, b]) => b - a)) };
}

async function othersOfLane(ledger: LaneLedger, batch: string, agents: ReadonlySet<string>): Promise<OtherTurns> {
  const [{ states }, own, overdue] = await Promise.all([
    ledger.laneCounts(),
    ledger.batchCounts(batch),
    ledger.overdueTurns(LOOKED_AT),
  ]);
  const isOther = (row: TurnRow): boolean => row.batch !== batch && agents.has(row.agent);
  const taken = tallied((await rowsOf(ledger, overdue)).filter((row) => row.state !== "settled" && isOther(row)));
  const all = sumOf(states);
  const others = all - (own === undefined ? 0 : sumOf(own.states));
  if (others <= 0) return taken;
  if (all > LOOKED_AT) return added(taken, await counted(ledger, batch, others));
  let found = taken;
  for await (const rows of waitingRows(ledger)) found = added(found, tallied(rows.filter(isOther)));
  return found;
}

/** By the counts that the ledger keeps of each batch, the newest first. */
async function counted(ledger: LaneLedger, own: string, others: number): Promise<OtherTurns> {
  const placed = await ledger.batches(LOOKED_AT);
  const ids = placed.map(({ batch }) => batch).filter((batch) => batch !== own);
  const batches = new Map<string, number>();
  let left = others;
  for (let at = 0; at < ids.length && left > 0; at += PAGE) {
    const page = ids.slice(at, at + PAGE);
    for (const [i, counts] of (await Promise.all(page.map((id) => ledger.batchCounts(id)))).entries()) {
      const waiting = counts === undefined ? 0 : sumOf(counts.states);
      if (waiting > 0) batches.set(page[i] ?? "", waiting);
      left -= waiting;
    }
  }
  left = Math.max(0, left);
  const named: string[] = [];
  if (left > 0)
    for (const state of WAITING)
      named.push(...tallied(await rowsOf(ledger, turnsOf(await ledger.stateTurns(state, undefined, PAGE)))).named);
  const whole = placed.length < LOOKED_AT;
  const unknown = whole ? { noBatch: left, unnamed: 0 } : { noBatch: 0, unnamed: left };
  return { turns: others, batches, ...unknown, named: named.slice(0, NAMED), exact: false };
}

async function* waitingRows(ledger: LaneLedger): AsyncGenerator<readonly TurnRow[]> {
  for (const state of WAITING) {
    let behind: StatePlace | undefined;
    for (let read = 0; read < LOOKED_AT; read += PAGE) {
      const places = await ledger.stateTurns(state, behind, PAGE);
      behind = places.at(-1);
      if (behind === undefined) break;
      yield rowsOf(ledger, turnsOf(places));
    }
  }
}

function turnsOf(places: readonly StatePlace[]): string[] {
  return places.map(({ turn }) => turn);
}

async function rowsOf(ledger: LaneLedger, turns: readonly string[]): Promise<TurnRow[]> {
  return turns.length === 0 ? [] : (await ledger.rows(turns)).filter((row) => row !== undefined);
}

function tallied(rows: readonly TurnRow[]): OtherTurns {
  const batches = new Map<string, number>();
  for (const { batch } of rows) if (batch !== undefined) batches.set(batch, (batches.get(batch) ?? 0) + 1);
  const loose = rows.filter(({ batch }) => batch === undefined);
  const named = loose.slice(0, NAMED).map(({ id }) => id);
  return { turns: rows.length, batches, noBatch: loose.length, named, unnamed: 0, exact: true };
}

function added(a: OtherTurns, b: OtherTurns): OtherTurns {
  const batches = new Map(a.batches);
  for (const [batch, turns] of b.batches) batches.set(batch, (batches.get(batch) ?? 0) + turns);
  return {
    turns: a.turns + b.turns,
    batches,
    noBatch: a.noBatch + b.noBatch,
    named: [...a.named, ...b.named].slice(0, NAMED),
    unnamed: a.unnamed + b.unnamed,
    exact: a.exact && b.exact,
  };
}

function sumOf(states: Readonly<Record<TurnState, number>>): number {
  return WAITING.reduce((sum, state) => sum + states[state], 0);
}
