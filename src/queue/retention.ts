import { messageOf } from "../domain/error.ts";
import { turnOfJob } from "../ledger/keys.ts";
import type { AgedTurn, LaneUpkeep, Place } from "../ledger/upkeep.ts";
import type { KeptLane } from "./reconcile-lane.ts";

/** How long settled turns are kept, and how many. What is left out has its default. */
export interface Retention {
  /** From the settling; 7 days unless given. */
  readonly maxAgeMs?: number | undefined;
  /** In one lane; 1,000,000 unless given. */
  readonly maxSettled?: number | undefined;
}

/** The same with the defaults filled in. */
export interface KeptFor {
  readonly maxAgeMs: number;
  readonly maxSettled: number;
}

export const RETENTION: KeptFor = Object.freeze({ maxAgeMs: 7 * 86_400_000, maxSettled: 1_000_000 });
/** How much longer than its turns the counts of a batch are kept. */
export const COUNTS_KEPT_TIMES = 10;

/** Turns that one script looks at or removes, and pages of a round: its bound. */
const PAGE_TURNS = 200;
const PAGES = 50;
const PAGE_JOBS = 100;

export interface Retired {
  readonly next: Place;
  /** Turns that were removed. */
  readonly turns: number;
  /** Sessions that lost turns: of some nothing may be left. */
  readonly sessions: ReadonlySet<string>;
}

/**
 * Removes settled turns that are too old or too many, oldest first, from a place on: row, request,
 * attempts, records, Results, streams, jobs, and their places in indexes. A turn stays while its
 * batch is unfinished in any lane or ended within the age, and while its session has unsettled turns.
 */
export async function retire(
  { lane, upkeep }: KeptLane,
  otherLanes: () => Promise<readonly LaneUpkeep[]>,
  retention: KeptFor,
  place: Place,
): Promise<Retired> {
  const sessions = new Set<string>();
  const ended = new Map<string, boolean>();
  const endedBy = (await upkeep.now()) - retention.maxAgeMs;
  let turns = 0;
  let next = place;
  for (let page = 0; page < PAGES; page++) {
    const aged = await upkeep.aged(next, endedBy, retention.maxSettled, PAGE_TURNS);
    const others = aged.turns.some(({ batch }) => batch !== "" && !ended.has(batch))
      ? (await otherLanes()).filter((other) => other.lane !== lane.name)
      : [];
    const mayGo: AgedTurn[] = [];
    for (const turn of aged.turns) {
      const { batch } = turn;
      if (batch !== "" && !ended.has(batch)) {
        const rest = await Promise.all(others.map((other) => other.batchEnded(batch, endedBy)));
        ended.set(batch, !rest.includes(false));
      }
      if (batch === "" || ended.get(batch) === true) mayGo.push(turn);
    }
    await upkeep.retire(
      mayGo.map(({ turn }) => turn),
      aged.settledBy,
      endedBy,
    );
    turns += mayGo.length;
    for (const { session } of mayGo) if (session !== "") sessions.add(session);
    next = aged.next;
    if (next === "") break;
  }
  return { next, turns, sessions };
}

/**
 * Removes finished jobs of BullMQ's that stand for no turn and are as old as a turn may be: those of
 * turns go with them. Looks at some from a rank on.
 */
export async function removeStrays({ lane, upkeep, log }: KeptLane, retention: KeptFor, place: Place): Promise<Place> {
  const from = Number(place === "" ? 0 : place);
  const old = await upkeep.finishedJobs(from, PAGE_JOBS, (await upkeep.now()) - retention.maxAgeMs);
  if (old.length === 0) return "";
  const rows = await lane.ledger.rows(old.map(turnOfJob));
  for (const [i, job] of old.entries()) {
    if (rows[i] !== undefined) continue;
    await lane.queue.remove(job).catch((error: unknown) => {
      log.debug({ lane: lane.name, job, error: messageOf(error) }, "a stray job was not removed");
    });
  }
  return String(from + PAGE_JOBS);
}
