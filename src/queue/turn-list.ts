import type { TurnState } from "../domain/lifecycle.ts";
import type { Outcome } from "../domain/turn-result.ts";
import type { LaneLedger, StatePlace, TurnRow } from "../ledger/ledger.ts";
import { BatchView } from "./batch-view.ts";
import type { LaneSet } from "./lane-set.ts";

/** Which turns are wanted; all unless said. */
export interface TurnFilter {
  readonly lane?: string | undefined;
  readonly batch?: string | undefined;
  readonly session?: string | undefined;
  readonly agent?: string | undefined;
  readonly state?: TurnState | undefined;
  readonly outcome?: Outcome | undefined;
  /** At most so many; all unless given. */
  readonly limit?: number | undefined;
}

const PAGE = 100;
/** What is going on comes before what is over. */
const ORDER: readonly TurnState[] = ["running", "stopping", "waiting", "delayed", "parked", "settled"];

/**
 * Turns as lists show them. A batch's in the order of submission, else lane by lane and state by state, the last to
 * come into a state first. Read page by page as they are asked for: a turn that changes meanwhile may come twice or not.
 */
export async function* listTurns(lanes: LaneSet, filter: TurnFilter): AsyncGenerator<TurnRow> {
  let left = filter.limit ?? Number.POSITIVE_INFINITY;
  if (left <= 0) return;
  for await (const rows of pagesOf(lanes, filter)) {
    for (const row of rows) {
      if (!isWanted(row, filter)) continue;
      yield row;
      if (--left <= 0) return;
    }
  }
}

function isWanted(row: TurnRow, filter: TurnFilter): boolean {
  return (["lane", "batch", "session", "agent", "state", "outcome"] as const).every(
    (field) => filter[field] === undefined || row[field] === filter[field],
  );
}

async function* pagesOf(
  lanes: LaneSet,
  { lane, batch, state, outcome }: TurnFilter,
): AsyncGenerator<readonly TurnRow[]> {
  if (batch !== undefined) {
    yield* new BatchView(lanes, batch).rows();
    return;
  }
  const names = lane === undefined ? await lanes.names() : [lane];
  const states = state !== undefined ? [state] : outcome === undefined ? ORDER : (["settled"] as const);
  for (const name of names) {
    for (const wanted of states) yield* stateRows(lanes.get(name).ledger, wanted);
  }
}

async function* stateRows(ledger: LaneLedger, state: TurnState): AsyncGenerator<readonly TurnRow[]> {
  for (let behind: StatePlace | undefined; ;) {
    const places = await ledger.stateTurns(state, behind, PAGE);
    behind = places.at(-1);
    if (behind === undefined) return;
    const rows = await ledger.rows(places.map(({ turn }) => turn));
    yield rows.filter((row) => row !== undefined);
  }
}
