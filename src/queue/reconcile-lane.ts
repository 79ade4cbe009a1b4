import { messageOf } from "../domain/error.ts";
import { commandOf } from "../ledger/scripts.ts";
import { jobId, laneTag, turnOfJob } from "../ledger/keys.ts";
import type { TurnRow } from "../ledger/ledger.ts";
import type { Fault, LaneUpkeep, Place } from "../ledger/upkeep.ts";
import type { Log } from "../telemetry/log.ts";
import { EXPIRED, settleUnrun } from "./cancel.ts";
import type { Lane } from "./lane-set.ts";
import { jobOf, parkedMs } from "./submit-chunk.ts";
import { dataWithCrashed } from "./tell.ts";
import { sendTogether } from "./transaction.ts";

/** Most rows that one call looks at. */
const PAGE_ROWS = 500;
/** Pages in a round: one, and more when jobs are missing by the sums, as after somebody has emptied a queue. */
const PAGES_WHEN_MISSING = 20;
const JOBS_AT_ONCE = 100;

/** What a walk over a lane's unsettled turns found and put right. */
export interface Reconciled {
  readonly next: Place;
  readonly rows: number;
  /** Turns that got their job back. */
  readonly jobs: number;
  /** Indexes, leases and sessions that were put right. */
  readonly mended: number;
  /** Turns that had not been started in time. */
  readonly expired: number;
  /** Turns whose row cannot be read: they are passed over. */
  readonly corrupt: ReadonlySet<string>;
  /** Batches whose counts may be wrong now. */
  readonly batches: ReadonlySet<string>;
}

/** A lane and what looks after it. */
export interface KeptLane {
  readonly lane: Lane;
  readonly upkeep: LaneUpkeep;
  readonly log: Log;
}

/**
 * Heals what a death between the ledger and BullMQ, or a tool that removes jobs, has left: looks at
 * some of the lane's unsettled turns from a place on, and brings on those that nothing would bring
 * on any more. Each repair is one script or one MULTI and may be done by anyone, also twice. A
 * repair that fails is logged; the others go on.
 */
export async function reconcileRows(kept: KeptLane, place: Place): Promise<Reconciled> {
  const sum = { next: place, rows: 0, jobs: 0, mended: 0, expired: 0 };
  const corrupt = new Set<string>();
  const batches = new Set<string>();
  let deep = false;
  for (let page = 0; page < PAGES_WHEN_MISSING; page++) {
    const { next, rows, missing, faults } = await kept.upkeep.scan(sum.next, PAGE_ROWS, deep);
    sum.next = next;
    sum.rows += rows;
    const ofKind = (kind: Fault["kind"]): string[] =>
      faults.filter((fault) => fault.kind === kind).map(({ subject }) => subject);
    for (const turn of ofKind("corrupt")) corrupt.add(turn);
    sum.mended += await mend(kept, faults, batches);
    const jobs = await bringBack(kept, ofKind("job"));
    sum.jobs += jobs;
    sum.expired += await expire(kept, ofKind("expired"));
    // Where the sums still say that jobs are missing the rest of the lane is looked at too, and then what is in no list.
    if (missing <= jobs) break;
    if (next === "") {
      if (deep) break;
      deep = true;
    }
  }
  return { ...sum, corrupt, batches };
}

async function mend(kept: KeptLane, faults: readonly Fault[], batches: Set<string>): Promise<number> {
  const wrong = faults.filter(({ kind }) => kind !== "corrupt" && kind !== "job" && kind !== "expired");
  if (wrong.length === 0) return 0;
  try {
    await kept.upkeep.mend(wrong);
  } catch (error) {
    kept.log.warn({ lane: kept.lane.name, error: messageOf(error) }, "indexes of a lane were not put right");
    return 0;
  }
  kept.log.warn({ lane: kept.lane.name, faults: wrong.slice(0, 10), count: wrong.length }, "a lane was put right");
  const turns = wrong.filter(({ kind }) => kind.startsWith("index:")).map(({ subject }) => subject);
  for (const batch of await batchesOf(kept.lane, turns)) batches.add(batch);
  return wrong.length;
}

/** The batches of turns whose row is not what an index said, or is gone: then the job may still know. */
async function batchesOf({ ledger, queue }: Lane, turns: readonly string[]): Promise<string[]> {
  const rows = await ledger.rows(turns);
  const found = await Promise.all(
    turns.map(async (turn, i) => {
      const row = rows[i];
      if (row !== undefined) return row.batch;
      const data: unknown = (await queue.getJob(jobId(turn)))?.data;
      const batch: unknown = typeof data === "object" && data !== null ? Reflect.get(data, "batch") : undefined;
      return typeof batch === "string" ? batch : undefined;
    }),
  );
  return found.filter((batch) => batch !== undefined);
}

/** Gives each of these turns its job back, in this order; answers how many. */
async function bringBack(kept: KeptLane, turns: readonly string[]): Promise<number> {
  let count = 0;
  for (let from = 0; from < turns.length; from += JOBS_AT_ONCE) {
    const jobs = await jobsOf(kept, turns.slice(from, from + JOBS_AT_ONCE));
    const added = await Promise.all(jobs.map((job) => addAgain(kept, job)));
    count += added.filter(Boolean).length;
  }
  if (count > 0) kept.log.warn({ lane: kept.lane.name, turns: count }, "turns got their jobs back");
  return count;
}

type JobJson = ReturnType<typeof jobOf>;

/** A job as it is to be, and its turn. */
interface LostJob {
  readonly row: TurnRow;
  readonly job: JobJson;
}

/** The jobs as after submit, with the delay that is left and the records of the crashed attempts. */
async function jobsOf({ lane: { ledger }, upkeep, log }: KeptLane, turns: readonly string[]): Promise<LostJob[]> {
  const [rows, requests, now] = await Promise.all([ledger.rows(turns), ledger.requests(turns), upkeep.now()]);
  const jobs = await Promise.all(
    rows.map(async (row, i): Promise<LostJob | undefined> => {
      const request = requests[i];
      if (row === undefined || row.state === "settled" || turnOfJob(row.job) !== row.id) return undefined;
      if (request === undefined) {
        log.warn({ lane: row.lane, turn: row.id }, "a turn without a job and without a request is passed over");
        return undefined;
      }
      const attempts = row.attempt > 0 ? (await ledger.facts(row.id)).attempts : [];
      const data = await dataWithCrashed(ledger, request, attempts);
      const delay = delayOf(row, now);
      const plain = jobOf(request);
      const own = data === undefined ? {} : { data: JSON.stringify(data) };
      return { row, job: { ...plain, ...own, id: row.job, delay, opts: { ...plain.opts, jobId: row.job, delay } } };
    }),
  );
  return jobs.filter((job) => job !== undefined);
}

/** One MULTI; adding a job that is there changes nothing. */
async function addAgain({ lane, log }: KeptLane, { row, job }: LostJob): Promise<boolean> {
  const tag = laneTag(lane.name);
  try {
    const cleared = await sendTogether(lane, "multi:bring_back", (to) => {
      void to.runCommand(commandOf("clear"), [tag, row.id, row.job]);
      void lane.queue.backend.addJobToTransaction(to, job, row.job);
      if (row.session !== undefined) void to.runCommand(commandOf("wake"), [tag, row.session]);
    });
    return cleared === 1;
  } catch (error) {
    log.warn({ lane: row.lane, turn: row.id, error: messageOf(error) }, "a turn without a job did not get one back");
    return false;
  }
}

function delayOf(row: TurnRow, now: number): number {
  if (row.state === "parked") return parkedMs();
  if (row.state === "delayed") return Math.max(0, (row.nextAt ?? 0) - now);
  return 0;
}

async function expire(kept: KeptLane, turns: readonly string[]): Promise<number> {
  let count = 0;
  for (const turn of turns) {
    try {
      if ((await settleUnrun(kept.lane.ledger, turn, EXPIRED)) === "ended") count++;
    } catch (error) {
      kept.log.warn({ lane: kept.lane.name, turn, error: messageOf(error) }, "an expired turn was not settled");
    }
  }
  return count;
}
