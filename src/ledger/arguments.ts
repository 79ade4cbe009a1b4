import { isCrashed } from "../domain/turn-record.ts";
import { encode } from "./codec.ts";
import { jobId } from "./keys.ts";
import type { AttemptClose, AttemptSettle, NewTurn, Unrun } from "./ledger.ts";
import { textOf } from "../domain/message.ts";
import { cutText } from "../domain/text.ts";
import type { TurnEvent } from "../domain/turn-event.ts";

type Argument = string | number | Buffer;

/** How much of an input a list shows, in characters: up to 64 bytes a field, Redis keeps a row compact (seen in 7.0). */
const PREVIEW_CHARS = 60;
/** A script's arguments are bounded: whoever closes with more events than this has appended the others before. */
const MAX_TAIL_EVENTS = 500;

function attemptArguments(close: AttemptClose): Argument[] {
  const { turn, attempt, nonce, stored, summary, spends, readTo } = close;
  const seq = stored.events.at(-1)?.seq ?? 0;
  return [
    turn,
    attempt,
    nonce,
    encode("attempt", stored),
    JSON.stringify(summary),
    JSON.stringify(summary.usage),
    isCrashed(summary.status) ? "1" : "0",
    spends,
    seq,
    readTo ?? "",
  ];
}

function eventArguments(events: readonly TurnEvent[]): Argument[] {
  return events.slice(-MAX_TAIL_EVENTS).flatMap((event) => [event.seq, JSON.stringify(event)]);
}

/** ARGV of the script close. */
export function closeArguments(
  close: AttemptClose,
  next: { readonly state: string; readonly afterMs: number },
): Argument[] {
  return [...attemptArguments(close), next.state, next.afterMs, ...eventArguments(close.tail)];
}

/** ARGV of the script settle. */
export function settleArguments(settle: AttemptSettle, channel: string): Argument[] {
  const { rev, result, outcome, status, sessionMessages } = settle;
  const score = result.score ?? null;
  return [
    ...attemptArguments(settle),
    rev,
    encode("result", result),
    outcome,
    status,
    score === null ? "0" : "1",
    score?.passed === true ? "1" : "0",
    sessionMessages === undefined ? "" : encode("messages", { v: 1, messages: [...sessionMessages] }),
    JSON.stringify(result.usage),
    channel,
    ...eventArguments(settle.tail),
  ];
}

/** ARGV of the script cancel. */
export function cancelArguments(unrun: Unrun, maxGapMs: number, settled: string, cancels: string): Argument[] {
  const { turn, how, nonce, reason, by, rev, result } = unrun;
  return [
    turn,
    how,
    nonce,
    reason,
    by ?? "",
    maxGapMs,
    rev,
    encode("result", result),
    JSON.stringify(result.usage),
    settled,
    cancels,
  ];
}

/** ARGV of the script submit. */
export function submitArguments(nonce: string, turns: readonly NewTurn[]): Argument[] {
  const args: Argument[] = [nonce];
  for (const { request, hash } of turns) {
    args.push(
      request.id,
      hash,
      encode("request", request),
      jobId(request.id),
      request.agent,
      request.session ?? "",
      request.batch?.id ?? "",
      request.batch?.sample ?? "",
      request.batch?.epoch ?? "",
      cutText(textOf(request.input), PREVIEW_CHARS),
      request.labels === undefined ? "" : JSON.stringify(request.labels),
      request.priority || "",
      request.delayMs || "",
      request.expiresInMs ?? "",
    );
  }
  return args;
}
