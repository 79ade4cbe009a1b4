import { randomUUID } from "node:crypto";
import type { StoredRequest } from "../domain/turn-request.ts";
import { isTurnqError, TurnqError } from "../domain/error.ts";
import { asText } from "../domain/json.ts";
import { cutText } from "../domain/text.ts";
import type { Cancelling, LaneLedger, TurnRow } from "../ledger/ledger.ts";
import { SILENT } from "../telemetry/log.ts";
import { buildUnrunResult } from "./build-result.ts";
import { finishAttempt, type Closing } from "./finish-attempt.ts";
import { rebuildLost } from "./lost-attempt.ts";

/** Longest reason that is kept, in characters. */
const REASON_CHARS = 500;
const BY_CHARS = 200;
/** How many turns are cancelled at once. */
const AT_ONCE = 100;
/** Another script may be first so often in a row, and not more. */
const TRIES = 50;

export interface CancelOptions {
  /** What the Result says as its error; "the turn was cancelled" unless given. */
  readonly reason?: string | undefined;
  /** Who cancels, for the turn's row. */
  readonly by?: string | undefined;
}

/**
 * What a cancel did. `settled`: the turn has ended by it. `requested`: it runs, and was told to
 * stop, now or by an earlier cancel. `already`: it had been settled, and is as it was.
 */
export interface Cancelled {
  readonly kind: "settled" | "requested" | "already";
}

/** Why a turn ends that nobody runs. */
export interface UnrunReason {
  readonly how: "cancelled" | "expired";
  readonly reason: string;
  readonly by?: string | undefined;
}

/** A turn that was not started in time. */
export const EXPIRED: UnrunReason = {
  how: "expired",
  reason: "the turn expired: it was not started in time",
};

/**
 * Settles a turn without a run, also where no worker is up: what was not begun, backs off, or was
 * not started in time. An open attempt is flagged and told to stop when it is cancelled; one whose
 * worker is gone is closed as lost first. Answers what the ledger said at the end; each step may be
 * repeated by anyone.
 */
export async function settleUnrun(ledger: LaneLedger, turn: string, why: UnrunReason): Promise<Cancelling["kind"]> {
  const nonce = randomUUID();
  let flagged = false;
  for (let left = TRIES; left > 0; left--) {
    const answer = await tryOnce(ledger, turn, why, nonce);
    if (answer.kind === "changed") continue;
    if (answer.kind === "settled" && flagged) return "ended";
    if (answer.kind !== "lost") return answer.kind;
    flagged = true;
    // The flag is set, so that the close settles the turn: as cancelled by this call or an earlier one.
    const facts = await ledger.facts(turn);
    const rebuilt = await rebuildLost(ledger, facts, answer.attempt, answer.announces);
    if ((await finishAttempt(closing(ledger), rebuilt)).kind === "settled") return "ended";
  }
  throw new TurnqError("internal", "the turn changed all the time while it was cancelled", { where: `turn ${turn}` });
}

async function tryOnce(
  ledger: LaneLedger,
  turn: string,
  { how, reason, by }: UnrunReason,
  nonce: string,
): Promise<Cancelling> {
  const facts = await ledger.facts(turn);
  const request: StoredRequest = { ...facts.request, id: turn };
  const result = buildUnrunResult({ facts: { ...facts, request }, how, reason, endedAt: Date.now() });
  return ledger.cancel({ turn, how, nonce, reason, by, rev: facts.rev, result });
}

/** A close by someone who is no worker: one fault of Redis ends it, and nothing is scored that was cancelled. */
function closing(ledger: LaneLedger): Closing {
  return { ledger, worker: { log: SILENT, givenUp: AbortSignal.abort(), score: () => null } };
}

/** Cancels a turn. Throws `not_found`. */
export async function cancelTurn(ledger: LaneLedger, turn: string, options: CancelOptions = {}): Promise<Cancelled> {
  const kind = await settleUnrun(ledger, turn, {
    how: "cancelled",
    reason: cutText(asText(options.reason ?? ""), REASON_CHARS) || "the turn was cancelled",
    by: options.by === undefined ? undefined : cutText(options.by, BY_CHARS),
  });
  switch (kind) {
    case "missing":
      throw new TurnqError("not_found", "there is no such turn", { where: `turn ${turn}` });
    case "ended":
      return { kind: "settled" };
    case "requested":
      return { kind: "requested" };
    default:
      return { kind: "already" };
  }
}

/** A turn that was removed since its row was read needs no cancel. */
async function cancelIfThere(ledger: LaneLedger, turn: string, options: CancelOptions): Promise<Cancelled> {
  try {
    return await cancelTurn(ledger, turn, options);
  } catch (error) {
    if (isTurnqError(error, "not_found")) return { kind: "already" };
    throw error;
  }
}

/** How far a cancel of many turns has come. */
export interface CancelProgress {
  /** Turns looked at. */
  readonly turns: number;
  readonly settled: number;
  readonly requested: number;
  /** Turns that were settled before: they stay as they are. */
  readonly already: number;
}

/**
 * Cancels every turn of these pages that is not settled, some at once, in bounded memory, and tells
 * after each of them how far it is. May be broken off and called again.
 */
export async function* cancelMany(
  pages: AsyncIterable<readonly TurnRow[]> | Iterable<readonly TurnRow[]>,
  ledgerOf: (lane: string) => LaneLedger,
  options: CancelOptions = {},
): AsyncGenerator<CancelProgress> {
  const done = { turns: 0, settled: 0, requested: 0, already: 0 };
  for await (const page of pages) {
    const open = page.filter(({ state }) => state !== "settled");
    done.turns += page.length - open.length;
    done.already += page.length - open.length;
    for (let from = 0; from < open.length; from += AT_ONCE) {
      const some = open.slice(from, from + AT_ONCE);
      const answers = await Promise.all(some.map(({ id, lane }) => cancelIfThere(ledgerOf(lane), id, options)));
      done.turns += some.length;
      for (const { kind } of answers) done[kind]++;
      yield { ...done };
    }
    if (open.length === 0) yield { ...done };
  }
}
