import { isDeepStrictEqual } from "node:util";
import { validHistory } from "../../../src/domain/message.ts";
import type { TurnEvent } from "../../../src/domain/turn-event.ts";
import type { TurnResult } from "../../../src/domain/turn-result.ts";
import { laneKey } from "../../../src/ledger/keys.ts";
import type { ClosedAttempt } from "../../../src/ledger/ledger.ts";
import { decode } from "../../../src/ledger/codec.ts";
import { checkLane } from "../../check-lane.ts";
import { eventsOf } from "../queue/scene.ts";
import { sessionOf, turnsOf, type Scenario } from "./scenarios.ts";
import { linesOf, type Stage } from "./stage.ts";

/** Every Result that there is of a scenario's turns, by turn and generation. */
export async function resultsOf(stage: Stage, scenario: Scenario): Promise<Map<string, TurnResult>> {
  const results = new Map<string, TurnResult>();
  const ledger = stage.scene.ledger(stage.lane);
  for (const turn of turnsOf(scenario, stage.lane))
    for (let generation = 1; generation <= 3; generation++) {
      const result = await ledger.result(turn, generation);
      if (result !== undefined) results.set(`${turn}~${generation}`, result);
    }
  return results;
}

/**
 * What of the invariants does not hold once all is over, in words. `early` are Results that were
 * seen on the way: they must be the same now.
 */
export async function broken(
  stage: Stage,
  scenario: Scenario,
  early: ReadonlyMap<string, TurnResult>,
): Promise<string[]> {
  const { scene, lane } = stage;
  const problems: string[] = [];
  const must = (holds: boolean, what: string): void => void (holds || problems.push(what));
  const results = await resultsOf(stage, scenario);
  for (const [name, result] of early)
    must(JSON.stringify(results.get(name)) === JSON.stringify(result), `invariant 1: the Result of ${name} changed`);
  for (const turn of turnsOf(scenario, lane)) {
    const facts = await scene.ledger(lane).facts(turn);
    const generations = scenario.retried?.includes(turn) === true ? 2 : 1;
    must(facts.generation === generations, `${turn} is in generation ${facts.generation}`);
    const ended = Array.from({ length: generations }, (_, i) => results.get(`${turn}~${i + 1}`));
    must(!ended.includes(undefined), `invariant 1: a Result of ${turn} is missing`);
    spendHolds(stage, turn, facts.attempts, must);
    for (const result of ended) if (result !== undefined) sumHolds(turn, result, must);
    const told = ended.flatMap((result) => result?.attempts.map(({ attempt }) => attempt) ?? []);
    must(
      JSON.stringify(told) === JSON.stringify(facts.attempts.map(({ attempt }) => attempt)),
      `invariant 10: ${turn} has attempts that its Results do not name`,
    );
    eventsHold(turn, generations, await eventsOf(await scene.turnq.turn(turn, { lane })), must);
  }
  await sessionHolds(stage, scenario, must);
  const [active, wait] = await Promise.all(["active", "wait"].map((list) => scene.redis.llen(scene.bull(lane, list))));
  must(active === 0 && wait === 0, `invariant 11: ${active} jobs are active, ${wait} wait`);
  for (const problem of await checkLane(scene.redis, lane)) problems.push(`the lane: ${problem}`);
  return problems;
}

type Must = (holds: boolean, what: string) => void;

/** Invariants 3, 4 and 10: nothing runs twice, and what was spent is what is booked, or is said to be a floor. */
function spendHolds(stage: Stage, turn: string, attempts: readonly ClosedAttempt[], must: Must): void {
  const lines = linesOf(stage).map((line) => line.split(" "));
  const runs = lines.filter(([what, of]) => what === "run" && of === turn).map(([, , attempt]) => Number(attempt));
  must(new Set(runs).size === runs.length, `invariant 10: an attempt of ${turn} ran twice: ${runs.join(" ")}`);
  for (const attempt of runs)
    must(
      attempts.some((closed) => closed.attempt === attempt),
      `invariant 3: attempt ${attempt} of ${turn} ran and is not booked`,
    );
  for (const { attempt, usage, late } of attempts) {
    const spent = lines
      .filter(([what, of, at]) => what === "spent" && of === turn && Number(at) === attempt)
      .reduce((sum, [, , , tokens]) => sum + Number(tokens), 0);
    const booked = (usage.inputTokens ?? 0) + (late?.inputTokens ?? 0);
    must(booked <= spent, `invariant 3: attempt ${attempt} of ${turn} spent ${spent}, booked are ${booked}`);
    must(
      booked === spent || usage.known !== "reported",
      `invariant 3: attempt ${attempt} of ${turn} spent ${spent}, ${booked} are booked as all of it`,
    );
  }
}

function sumHolds(turn: string, { usage, attempts, ok, error }: TurnResult, must: Must): void {
  const sum = attempts.reduce((total, attempt) => total + (attempt.usage.inputTokens ?? 0), 0);
  must((usage.inputTokens ?? 0) >= sum, `invariant 3: the Result of ${turn} is less than its attempts`);
  must(
    usage.known !== "reported" || attempts.every((attempt) => attempt.usage.known === "reported"),
    `invariant 3: the Result of ${turn} hides that an attempt is not fully known`,
  );
  must(ok === (error === undefined), `${turn} is ok ${ok} with the error ${error}`);
}

/** Invariant 8. */
function eventsHold(turn: string, generations: number, events: readonly TurnEvent[], must: Must): void {
  const count = (of: readonly TurnEvent[], type: TurnEvent["type"]): number =>
    of.filter((event) => event.type === type).length;
  must(
    events.every(({ seq }, i) => i === 0 || seq > (events[i - 1]?.seq ?? 0)),
    `invariant 8: the events of ${turn} are out of order`,
  );
  must(
    count(events, "turn_completed") === generations,
    `invariant 8: ${turn} was completed ${count(events, "turn_completed")} times in ${generations} generations`,
  );
  for (const attempt of new Set(events.map((event) => event.attempt))) {
    const own = events.filter((event) => event.attempt === attempt);
    const [starts, ends] = [count(own, "agent_start"), count(own, "agent_end")];
    // A turn that was ended without a run has nothing but that end.
    const none = own.every(({ type }) => type === "turn_completed");
    must(
      none || (starts === 1 && ends === 1),
      `invariant 8: attempt ${attempt} of ${turn}: ${starts} starts, ${ends} ends`,
    );
    for (const [start, end] of [
      ["step_start", "step_end"],
      ["tool_start", "tool_end"],
    ] as const)
      must(count(own, start) === count(own, end), `invariant 8: attempt ${attempt} of ${turn}: a ${start} has no end`);
  }
}

/** Invariants 6 and 7. */
async function sessionHolds({ scene, lane }: Stage, scenario: Scenario, must: Must): Promise<void> {
  const session = sessionOf(scenario, lane);
  if (session === undefined) return;
  const parts = await scene.redis.lrangeBuffer(laneKey(lane, "messages", session), 0, -1);
  const messages = parts.flatMap((bytes) => decode("messages", bytes, session).messages);
  must(isDeepStrictEqual(validHistory(messages), messages), `invariant 7: ${session} is not valid`);
  const rows = await scene.ledger(lane).rows(turnsOf(scenario, lane).filter((turn) => turn.startsWith("t")));
  const ends = rows.map((row) => row?.settledAt ?? 0);
  must(
    ends.every((at, i) => i === 0 || at >= (ends[i - 1] ?? 0)),
    `invariant 7: the turns of ${session} settled out of order`,
  );
  const ok = rows.filter((row) => row?.outcome === "ok").length;
  const iteration = Number((await scene.redis.hget(laneKey(lane, "session", session), "iteration")) ?? 0);
  must(iteration === ok, `invariant 6: ${session} is at iteration ${iteration} after ${ok} turns that ended well`);
}
