import { randomUUID } from "node:crypto";
import type { EventBody, TurnEvent } from "../domain/turn-event.ts";
import { endedWell, type TurnRecord } from "../domain/turn-record.ts";
import { outcomeOf, type TurnResult } from "../domain/turn-result.ts";
import { messageOf } from "../domain/error.ts";
import { FAILURE_POLICY } from "../domain/failure.ts";
import { validHistory } from "../domain/message.ts";
import type { StopReason } from "../domain/stop-reason.ts";
import type { AttemptClose, AttemptSettle, TurnFacts } from "../ledger/ledger.ts";
import { buildResult, closedAttempt } from "./build-result.ts";
import { decide } from "./decide.ts";
import { bookLate } from "./late-usage.ts";
import { untilAnswered } from "./patience.ts";
import type { LaneContext, WorkerContext } from "./worker-context.ts";

/** What the close of an attempt needs of its lane: whoever cancels a turn may close one too. */
export interface Closing extends Pick<LaneContext, "ledger"> {
  readonly worker: Pick<WorkerContext, "log" | "givenUp" | "score">;
}

/** An attempt that is over, as it goes into the ledger. */
export interface EndedAttempt {
  readonly facts: TurnFacts;
  readonly record: TurnRecord;
  readonly worker: string;
  readonly stopReason?: StopReason | undefined;
  /** Of one that was rebuilt from its stored events: the seq of the last of them. */
  readonly readTo?: number | undefined;
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
  /** Another worker holds the turn, or has stored more of it since it was rebuilt: nothing is to be told. */
  | { readonly kind: "stale" };

/** Closes an attempt and, when nothing follows it, settles its turn. Repeats itself until Redis answers. */
export async function finishAttempt(lane: Closing, ended: EndedAttempt): Promise<Finished> {
  try {
    return await finish(lane, ended);
  } finally {
    ended.letGo?.();
  }
}

async function finish(lane: Closing, ended: EndedAttempt): Promise<Finished> {
  const { record, facts } = ended;
  const { retry } = facts.request;
  const { spent, crashes, startedAt } = facts;
  const decision = decide(record, { retry, spent, crashes, startedAt }, Math.random);
  const { events, tail } = await ended.events(lastEvents(record));
  const close: AttemptClose = {
    turn: facts.request.id,
    attempt: record.attempt,
    nonce: randomUUID(),
    stored: { v: 1, record, events: [...events] },
    summary: closedAttempt(record, ended.worker),
    spends: decision.spends,
    tail,
    readTo: ended.readTo,
  };
  // Sent before the close and not awaited by it: no round trip more.
  const gateClosed = closeGate(lane, ended, close);
  // Nothing follows an attempt of a turn that was cancelled.
  if (decision.kind === "settle" || facts.cancel !== undefined) return settle(lane, ended, close);
  const next =
    decision.kind === "retry"
      ? ({ state: "delayed", afterMs: decision.afterMs } as const)
      : ({ state: "waiting", afterMs: 0 } as const);
  const answer = await untilAnswered(() => lane.ledger.close(close, next), lane.worker.log, lane.worker.givenUp);
  if (answer === "stale") return stale(lane, close);
  if (answer === "behind") return { kind: "stale" };
  if (answer === "cancelled") return settle(lane, { ...ended, facts: await factsAnew(lane, close.turn) }, close);
  // Handed back before the gate is closed it would be fetched again at once.
  await gateClosed;
  return decision.kind === "retry" ? { kind: "later", afterMs: decision.afterMs } : { kind: "handed_back" };
}

/** Closes the lane's gate when the attempt's provider refused it for now. Never rejects: begin asks the provider again. */
async function closeGate({ ledger, worker }: Closing, { record }: EndedAttempt, close: AttemptClose): Promise<void> {
  const { failure } = record;
  if (failure === undefined || FAILURE_POLICY[failure.code].then !== "gate") return;
  const { turn, attempt } = close;
  const afterMs = failure.retryAt === undefined ? undefined : Math.max(0, Math.round(failure.retryAt - Date.now()));
  const hit = { turn, attempt, nonce: close.nonce, reason: failure.code, afterMs, random: Math.random() };
  try {
    await untilAnswered(() => ledger.closeGate(hit), worker.log, worker.givenUp);
  } catch (error) {
    worker.log.error({ turn, attempt, error: messageOf(error) }, "the lane's gate was not closed");
  }
}

/** What the worker adds to an attempt's events, whether the turn goes on or not. */
function lastEvents(record: TurnRecord): EventBody[] {
  if (endedWell(record.status) || record.status === "cancelled") return [];
  return [{ type: "rolled_back", reason: record.status }];
}

/** The close with the event that ends the turn: what it says is known only from the Result. */
function withCompleted(
  close: AttemptClose,
  { ok, status, generation, endedAt }: TurnResult,
  seq: number,
): AttemptClose {
  const { turn, attempt, stored, tail } = close;
  const body: EventBody = { type: "turn_completed", outcome: outcomeOf(status), ok, generation };
  const before = stored.events.at(-1);
  const at = Math.max(before?.at ?? 0, endedAt);
  const last: TurnEvent = { turn, attempt, seq: (before?.seq ?? seq) + 1, at, ...body };
  return { ...close, stored: { ...stored, events: [...stored.events, last] }, tail: [...tail, last] };
}

function factsAnew({ ledger, worker }: Closing, turn: string): Promise<TurnFacts> {
  return untilAnswered(() => ledger.facts(turn), worker.log, worker.givenUp);
}

async function settle(lane: Closing, ended: EndedAttempt, close: AttemptClose): Promise<Finished> {
  const { ledger, worker } = lane;
  for (let facts = ended.facts; ; facts = await factsAnew(lane, close.turn)) {
    const turn = settlementOf(lane, { ...ended, facts }, close);
    const answer = await untilAnswered(() => ledger.settle(turn), worker.log, worker.givenUp);
    if (answer === "settled") return { kind: "settled", result: turn.result };
    if (answer === "stale") return stale(lane, close);
    if (answer === "behind") return { kind: "stale" };
  }
}

function settlementOf(lane: Closing, ended: EndedAttempt, close: AttemptClose): AttemptSettle {
  const { facts, record } = ended;
  const status = facts.cancel === undefined ? record.status : "cancelled";
  const { output, truncated } = record;
  const score = lane.worker.score(facts.request, { status, output, truncated });
  const result = buildResult({
    turn: close.turn,
    facts,
    record,
    summary: close.summary,
    stopReason: ended.stopReason,
    score,
  });
  return {
    ...withCompleted(close, result, facts.seq),
    rev: facts.rev,
    result,
    outcome: outcomeOf(result.status),
    status: result.status,
    sessionMessages: result.ok && facts.request.session !== undefined ? validHistory(record.messages) : undefined,
  };
}

/** A stale attempt's output is refused; what it spent beyond what is booked for it is booked. */
async function stale(lane: Closing, close: AttemptClose): Promise<Finished> {
  const { worker } = lane;
  const late = await bookLate(lane, close, close.summary.usage);
  worker.log.warn(
    { turn: close.turn, attempt: close.attempt, late },
    "an attempt ended that was no longer current: its output is refused, its spend booked",
  );
  return { kind: "stale" };
}
