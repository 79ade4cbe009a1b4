import { parseMark } from "../../src/process/mark.ts";
import type { Evidence, LaneEvidence } from "./evidence.ts";
import type { Verdict, Violation } from "./judge.ts";

/** The agents whose attempts have processes of their own: they never overlap on one machine. */
const LANES_OF_PROCESSES: ReadonlySet<string> = new Set(["module", "command"]);

/** Each lane agrees with itself. */
export function judgeLanes({ lanes }: Evidence): Violation[] {
  return lanes.flatMap(({ lane, problems }) =>
    problems.map((text): Violation => ({ verdict: verdictOf(text), amount: 1, lane, text })),
  );
}

/** Which figure a disagreement of a lane's counts and indexes belongs to. */
function verdictOf(problem: string): Verdict {
  if (/^leases|open attempt/.test(problem)) return "leakedSlots";
  if (/session/.test(problem)) return "brokenSessions";
  return /batch|Result/.test(problem) ? "duplicated" : "lost";
}

/** Nothing is held once nothing runs, and as many turns run at once as there are slots. */
export function judgeSlots({ lanes, slots, running, workerFaults }: Evidence): Violation[] {
  const leak = (amount: number, text: string, lane?: string): Violation => ({
    verdict: "leakedSlots",
    amount,
    lane,
    text,
  });
  return [
    ...lanes.flatMap((lane) => heldIn(lane).map((text) => leak(1, text, lane.lane))),
    ...slots
      .filter(({ due, got }) => got < due)
      .map(({ what, due, got }) => leak(due - got, `${what}: ${got} turns run at once, due are ${due}`)),
    ...(running > 0 ? [leak(running, `workers say that they run ${running} attempts, and no turn is left`)] : []),
    ...workerFaults.map((text) => leak(1, text)),
  ];
}

function heldIn({ active, locks, leases }: LaneEvidence): string[] {
  return [
    ...active.map((job) => `BullMQ holds job ${job} as active`),
    ...locks.map((key) => `BullMQ has the lock ${key}`),
    ...leases.map((attempt) => `the lease of ${attempt} is held`),
  ];
}

/** No process is left, and none ran on after the next attempt of its turn had begun. */
export function judgeProcesses({ orphans, truth, turns }: Evidence): Violation[] {
  const left = orphans.map(({ pid, mark, command }): Violation => ({
    verdict: "orphans",
    amount: 1,
    turn: parseMark(mark)?.turn,
    text: `process ${pid} (${command}) is alive, with the mark ${mark}`,
  }));
  const lanes = new Map(turns.map(({ id, lane }) => [id, lane]));
  const newest = new Map<string, number>();
  const overlaps: Violation[] = [];
  for (const { what, turn, attempt } of truth) {
    const lane = lanes.get(turn);
    if (lane === undefined || !LANES_OF_PROCESSES.has(lane)) continue;
    const latest = newest.get(turn) ?? 0;
    if (what === "start") newest.set(turn, Math.max(latest, attempt));
    if (attempt >= latest) continue;
    const text = `attempt ${attempt} wrote "${what}" after attempt ${latest} had started`;
    overlaps.push({ verdict: "orphans", amount: 1, turn, lane, text });
  }
  return [...left, ...overlaps];
}
