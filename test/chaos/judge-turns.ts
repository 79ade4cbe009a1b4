import type { Evidence, TurnEvidence } from "./evidence.ts";
import type { Violation } from "./judge.ts";
import { attemptKey } from "./truth.ts";

/** Each accepted turn has one Result for each of its generations, which is what it was when it was first seen. */
export function judgeResults({ turns }: Evidence): Violation[] {
  return turns.flatMap((turn) => [...lostOf(turn), ...changedOf(turn), ...eventsOf(turn)]);
}

function lostOf({ id, lane, state, generation, results }: TurnEvidence): Violation[] {
  const lost = (text: string): Violation => ({ verdict: "lost", amount: 1, turn: id, lane, text });
  if (state === undefined) return [lost("was accepted, and nothing of it is stored")];
  if (state !== "settled") return [lost(`was accepted and is ${state} at the end`)];
  const missing = Array.from({ length: generation }, (_, i) => i + 1).filter(
    (wanted) => !results.some((result) => result.generation === wanted),
  );
  return missing.map((wanted) => lost(`is settled and has no Result of generation ${wanted}`));
}

function changedOf({ id, lane, generation, retries, results, seen }: TurnEvidence): Violation[] {
  const twice = (text: string): Violation => ({ verdict: "duplicated", amount: 1, turn: id, lane, text });
  const violations: Violation[] = [];
  if (generation > 1 + retries)
    violations.push(twice(`has ${generation} generations and was retried ${retries} times`));
  for (const before of seen) {
    const now = results.find((result) => result.generation === before.generation);
    if (now !== undefined && now.digest !== before.digest)
      violations.push(twice(`has another Result of generation ${before.generation} than the one that was seen`));
  }
  return violations;
}

/** One start and one end of each attempt, one end of each generation that ran. */
function eventsOf({ id, lane, attempts, results, events }: TurnEvidence): Violation[] {
  const violations: Violation[] = [];
  for (const { attempt } of attempts) {
    for (const type of ["agent_start", "agent_end"] as const) {
      const count = events.filter((event) => event.attempt === attempt && event.type === type).length;
      if (count === 1) continue;
      const verdict = count === 0 ? "lost" : "duplicated";
      violations.push({ verdict, amount: 1, turn: id, lane, text: `attempt ${attempt} has ${count} ${type} events` });
    }
  }
  for (const { generation } of results) {
    const ends = events.filter((event) => event.type === "turn_completed" && event.generation === generation);
    if (ends.length < 2) continue;
    const text = `generation ${generation} was completed ${ends.length} times`;
    violations.push({ verdict: "duplicated", amount: 1, turn: id, lane, text });
  }
  return violations;
}

/** No attempt starts once its generation is settled, and none starts twice. */
export function judgeStarts({ turns, truth }: Evidence): Violation[] {
  const violations: Violation[] = [];
  const started = new Set<string>();
  const byId = new Map(turns.map((turn) => [turn.id, turn]));
  for (const line of truth) {
    const turn = line.what === "start" ? byId.get(line.turn) : undefined;
    if (line.what !== "start" || turn === undefined) continue;
    const { id, lane } = turn;
    const key = attemptKey(id, line.attempt);
    if (started.has(key))
      violations.push({
        verdict: "duplicated",
        amount: 1,
        turn: id,
        lane,
        text: `attempt ${line.attempt} started twice`,
      });
    started.add(key);
    const text = startedLate(turn, line.attempt, line.at);
    if (text !== undefined) violations.push({ verdict: "rerunAfterSettle", amount: 1, turn: id, lane, text });
  }
  return violations;
}

function startedLate(turn: TurnEvidence, attempt: number, at: number): string | undefined {
  const listed = turn.results.find(({ result }) => result.attempts.some((other) => other.attempt === attempt));
  if (listed === undefined) return turn.state === "settled" ? `attempt ${attempt} ran and is in no Result` : undefined;
  const settledAt = turn.seen.find(({ generation }) => generation === listed.generation)?.settledAt;
  if (settledAt === undefined || at <= settledAt) return undefined;
  return `attempt ${attempt} started ${at - settledAt} ms after generation ${listed.generation} was settled`;
}
