import { randomUUID } from "node:crypto";
import type { EventBody, TurnEvent } from "../domain/turn-event.ts";
import { endedWell, type TurnRecord } from "../domain/turn-record.ts";
import { outcomeOf, type TurnResult } from "../domain/turn-result.ts";
import { addUsage, exceedingUsage, type Usage } from "../domain/usage.ts";
import { validHistory } from "../domain/message.ts";
import type { StopReason } from "../domain/stop-reason.ts";
import type { AttemptClose, AttemptSettle, TurnFacts } from "../ledger/ledger.ts";
import { buildResult, closedAttempt } from "./build-result.ts";
import { decide, type Decision } from "./decide.ts";
import { untilAnswered } from "./patience.ts";
import type { LaneContext } from "./worker-context.ts";

/** An attempt that is over, as it goes into the ledger. */
export interface EndedAttempt {
  readonly facts: TurnFacts;
  readonly record: TurnRecord;
  readonly worker: string;
  readonly stopReason?: StopReason | undefined;
  /** All its events with these last ones, deltas merged, and those of them that are not in its stream yet. Called once. */
  readonly events: (last: readonly EventBody[]) => Promise<AttemptEvents>;
  /** Gives up its lease: to be called when the ledger has answered, not before. */
  readonly letGo?: (() => void) | undefined;
}

export interface AttemptEvents {
  readonly events: readonly TurnEvent[];
  readonly tail: readonly TurnEvent[];
}

/** What became of the turn. */
export type Finished =
  | { readonly kind: "settled"; readonly result: TurnResult }
  | { readonly kind: "later"; readonly afterMs: number }
  | { readonly kind: "handed_back" }
  /** Another worker holds the turn: nothing is to be told. */
  | { readonly kind: "stale" };

/** Closes an attempt and, when nothing follows it, settles its turn. Repeats itself until Redis answers. */
export async function finishAttempt(lane: LaneContext, ended: EndedAttempt): Promise<Finished> {
  try {
    return await finish(lane, ended);
  } finally {
    ended.letGo?.();
  }
}

async function finish(lane: LaneContext, ended: EndedAttempt): Promise<Finished> {
  const { record, facts } = ended;
  const { retry } = facts.request;
  const attempts = facts.attempts.filter(({ attempt }) => attempt >= facts.firstAttempt).length;
  const { spent, crashes, startedAt } = facts;
  const decision = decide(record, { retry, spent, crashes, attempts, startedAt }, Math.random);
  const { events, tail } = await ended.events(lastEvents(record, decision, facts.generation));
  const close: AttemptClose = {
    turn: facts.request.id,
    attempt: record.attempt,
    nonce: randomUUID(),
    stored: { v: 1, record, events: [...events] },
    summary: closedAttempt(record, ended.worker),
    spends: decision.spends,
    tail,
  };
  if (decision.kind === "settle") return settle(lane, ended, close);
  const next =
    decision.kind === "retry"
      ? ({ state: "delayed", afterMs: decision.afterMs } as const)
      : ({ state: "waiting", afterMs: 0 } as const);
  const answer = await untilAnswered(() => lane.ledger.close(close, next), lane.worker.log, lane.worker.givenUp);
  if (answer === "stale") return stale(lane, close);
  return decision.kind === "retry" ? { kind: "later", afterMs: decision.afterMs } : { kind: "handed_back" };
}

/** What the worker adds to an attempt's events. */
function lastEvents(record: TurnRecord, decision: Decision, generation: number): EventBody[] {
  const ok = endedWell(record.status);
  const last: EventBody[] = ok || record.status === "cancelled" ? [] : [{ type: "rolled_back", reason: record.status }];
  if (decision.kind === "settle")
    last.push({ type: "turn_completed", outcome: outcomeOf(record.status), ok, generation });
  return last;
}

async function settle(lane: LaneContext, ended: EndedAttempt, close: AttemptClose): Promise<Finished> {
  const { ledger, worker } = lane;
  for (
    let facts = ended.facts;
    ;
    facts = await untilAnswered(() => ledger.facts(close.turn), worker.log, worker.givenUp)
  ) {
    const turn = settlementOf(lane, { ...ended, facts }, close);
    const answer = await untilAnswered(() => ledger.settle(turn), worker.log, worker.givenUp);
    if (answer === "settled") return { kind: "settled", result: turn.result };
    if (answer === "stale") return stale(lane, close);
  }
}

function settlementOf(lane: LaneContext, ended: EndedAttempt, close: AttemptClose): AttemptSettle {
  const { facts, record } = ended;
  const ok = endedWell(record.status);
  const score = lane.worker.score(facts.request, { status: record.status, output: record.output });
  const result = buildResult({
    turn: close.turn,
    facts,
    record,
    summary: close.summary,
    stopReason: ended.stopReason,
    score,
  });
  return {
    ...close,
    rev: facts.rev,
    result,
    outcome: outcomeOf(result.status),
    status: result.status,
    sessionMessages: ok && facts.request.session !== undefined ? validHistory(record.messages) : undefined,
  };
}

/** A stale attempt's output is refused; what it spent beyond what is booked for it is booked. */
async function stale(lane: LaneContext, close: AttemptClose): Promise<Finished> {
  const { worker } = lane;
  const late = await bookLate(lane, close);
  worker.log.warn(
    { turn: close.turn, attempt: close.attempt, late },
    "an attempt ended that was no longer current: its output is refused, its spend booked",
  );
  return { kind: "stale" };
}

/** Repeats itself until nothing is beyond what is booked: another worker may book for the same attempt. */
async function bookLate({ ledger, worker }: LaneContext, close: AttemptClose): Promise<Usage | undefined> {
  const asked = <T>(call: () => Promise<T>): Promise<T> => untilAnswered(call, worker.log, worker.givenUp);
  for (;;) {
    const facts = await asked(() => ledger.facts(close.turn));
    const closed = facts.attempts.find((attempt) => attempt.attempt === close.attempt);
    if (closed === undefined) return undefined;
    const booked = closed.late === undefined ? closed.usage : addUsage(closed.usage, closed.late);
    const more = exceedingUsage(close.summary.usage, booked);
    if (more === undefined) return undefined;
    if (await asked(() => ledger.bookLate(close.turn, close.attempt, closed.late, more))) return more;
  }
}
