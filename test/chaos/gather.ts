import { readFileSync } from "node:fs";
import type { Redis } from "ioredis";
import { decode } from "../../src/ledger/codec.ts";
import { laneKey, laneTag } from "../../src/ledger/keys.ts";
import type { LaneLedger } from "../../src/ledger/ledger.ts";
import { redisLedger } from "../../src/ledger/redis-ledger.ts";
import { parseMark } from "../../src/process/mark.ts";
import { machineTable } from "../../src/process/process-table.ts";
import { checkLane } from "../check-lane.ts";
import type { LaneEvidence, Orphan, SessionEvidence, TurnEvidence } from "./evidence.ts";
import { AGENTS, type PlannedTurn } from "./plan.ts";
import { storedResult, type ResultWatch } from "./watch.ts";

/** The lanes of the harness: those of its agents, and the one in which slots are counted. */
export const LANES: readonly string[] = [...AGENTS, "probe"];

/** Reads all of a turn. */
export async function gatherTurn(
  redis: Redis,
  turn: PlannedTurn,
  watch: ResultWatch,
  retries: number,
): Promise<TurnEvidence> {
  const { id, agent: lane, session } = turn;
  const ledger = redisLedger(redis, lane);
  const row = await ledger.row(id);
  const place = { id, lane, session, retries, seen: watch.seen(id) };
  if (row === undefined) return { ...place, generation: 1, attempts: [], results: [], events: [] };
  const { attempts } = await ledger.facts(id);
  const records = await Promise.all(attempts.map(({ attempt }) => ledger.attempt(id, attempt)));
  return {
    ...place,
    state: row.state,
    generation: row.generation,
    attempts,
    results: await resultsOf(redis, ledger, id, row.generation),
    events: records.flatMap((record) => record?.events ?? []),
  };
}

async function resultsOf(
  redis: Redis,
  ledger: LaneLedger,
  turn: string,
  generations: number,
): Promise<TurnEvidence["results"]> {
  const results: TurnEvidence["results"][number][] = [];
  for (let generation = 1; generation <= generations; generation += 1) {
    const result = await ledger.result(turn, generation);
    if (result !== undefined) results.push({ ...(await storedResult(redis, ledger.lane, turn, generation)), result });
  }
  return results;
}

/** Reads what is stored of the sessions of these turns, which are in the order in which they were accepted. */
export async function gatherSessions(redis: Redis, turns: readonly PlannedTurn[]): Promise<SessionEvidence[]> {
  const sessions = new Map<string, PlannedTurn[]>();
  for (const turn of turns) {
    if (turn.session === undefined) continue;
    sessions.set(turn.session, [...(sessions.get(turn.session) ?? []), turn]);
  }
  return Promise.all(
    [...sessions].map(async ([id, own]): Promise<SessionEvidence> => {
      const lane = own[0]?.agent ?? "";
      const stored = await redis.lrangeBuffer(laneKey(lane, "messages", id), 0, -1);
      return {
        id,
        lane,
        turns: own.map((turn) => turn.id),
        iteration: Number((await redis.hget(laneKey(lane, "session", id), "iteration")) ?? 0),
        messages: stored.map((bytes) => decode("messages", bytes, `session ${id}`).messages),
      };
    }),
  );
}

/** Jobs that BullMQ holds as active in any lane. */
export async function activeJobs(redis: Redis): Promise<number> {
  const counts = await Promise.all(LANES.map((lane) => redis.llen(`${laneTag(lane)}:${lane}:active`)));
  return counts.reduce((sum, count) => sum + count, 0);
}

export function gatherLanes(redis: Redis): Promise<LaneEvidence[]> {
  return Promise.all(
    LANES.map(async (lane): Promise<LaneEvidence> => {
      const bull = `${laneTag(lane)}:${lane}`;
      const [active, locks, leases, problems] = await Promise.all([
        redis.lrange(`${bull}:active`, 0, -1),
        redis.keys(`${bull}:*:lock`),
        redis.zrange(laneKey(lane, "leases"), "0", "-1"),
        checkLane(redis, lane),
      ]);
      return { lane, active, locks, leases, problems };
    }),
  );
}

/** Living processes with a mark of this store. `ofTurns`: only those of a turn, no runner between two. */
export function processesOf(store: string, ofTurns: boolean): Orphan[] {
  return machineTable.list().flatMap(({ pid, dead }) => {
    if (dead) return [];
    const marks = machineTable.marksOf(pid).flatMap((text) => {
      const mark = parseMark(text);
      return mark?.store === store && (!ofTurns || mark.attempt > 0) ? [text] : [];
    });
    const mark = marks.at(-1);
    return mark === undefined ? [] : [{ pid, mark, command: commandOf(pid) }];
  });
}

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ").trim().slice(0, 100);
  } catch {
    return "gone meanwhile";
  }
}
