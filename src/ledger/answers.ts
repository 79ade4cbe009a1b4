import { decode } from "./codec.ts";
import type { Begun, Cancelling, ClosedAttempt, TurnFacts } from "./ledger.ts";
import type { Message } from "../domain/message.ts";
import { TurnqError, messageOf } from "../domain/error.ts";
import { UNKNOWN_USAGE, Usage } from "../domain/usage.ts";
import { unreadableAttempt, unreadableRequest } from "./unreadable.ts";

/** A reply of a script: bytes, numbers and lists of them. */
type Reply = Buffer | number | null | Reply[];

function text(reply: Reply | undefined): string {
  return Buffer.isBuffer(reply) ? reply.toString("utf8") : String(reply ?? "");
}

function list(reply: Reply | undefined): Reply[] {
  return Array.isArray(reply) ? reply : [];
}

/** Reads what begin answered. Throws `corrupt` when a stored value cannot be read. */
export function begunOf(turn: string, answer: unknown): Begun {
  const [kind, ...rest] = list(answer as Reply);
  switch (text(kind)) {
    case "stray":
    case "nolock":
      return { kind: text(kind) as "stray" | "nolock" };
    case "expired":
      return { kind: "expired" };
    case "settled":
      return { kind: "settled", generation: Number(rest[0]) };
    case "wait":
    case "gate":
      return { kind: text(kind) as "wait" | "gate", ms: Number(rest[0]) };
    case "park":
      return { kind: "park", session: text(rest[0]) };
    case "lost":
      return { kind: "lost", attempt: Number(rest[0]), announces: text(rest[1]) === "1" };
    case "run":
      return run(turn, rest);
    default:
      throw new Error(`begin answered ${text(kind)}`);
  }
}

function run(turn: string, rest: Reply[]): Begun {
  const [attempt, ...facts] = rest;
  const [request, attempts, iteration, messages] = facts.slice(ROW_FACTS.length);
  const plain = factsOf(
    turn,
    facts.slice(0, ROW_FACTS.length).map(text),
    Buffer.isBuffer(request) ? request : null,
    list(attempts).map(text),
  );
  const history = readable(() => list(messages).flatMap((bytes) => messagesIn(bytes, turn)));
  return {
    kind: "run",
    attempt: Number(attempt),
    facts: history.problem === undefined ? plain : { ...plain, unreadable: history.problem },
    iteration: Number(iteration),
    history: history.value ?? [],
  };
}

/** Reads what cancel answered. */
export function cancellingOf(answer: unknown): Cancelling {
  const [kind, attempt, announces] = answer as [Cancelling["kind"], number?, string?];
  return kind === "lost" ? { kind, attempt: Number(attempt), announces: announces === "1" } : { kind };
}

function messagesIn(bytes: Reply, turn: string): Message[] {
  return Buffer.isBuffer(bytes) ? decode("messages", bytes, `the session of turn ${turn}`).messages : [];
}

/** One turn whose stored values are corrupt must end with that, and not stop the others. */
function readable<T>(read: () => T): { readonly value?: T; readonly problem?: string } {
  try {
    return { value: read() };
  } catch (error) {
    return { problem: messageOf(error) };
  }
}

/** The fields of a row that are facts of the turn, in the order in which begin answers them. */
export const ROW_FACTS = [
  "generation",
  "firstAttempt",
  "spent",
  "crashes",
  "seq",
  "rev",
  "submittedAt",
  "startedAt",
  "cancelAt",
  "cancelReason",
] as const;

/** The facts from the row's fields ({@link ROW_FACTS}), the stored request, and the hash of attempts as a flat list. */
export function factsOf(
  turn: string,
  row: readonly (string | null)[],
  request: Buffer | null,
  attempts: readonly string[],
): TurnFacts {
  const [generation, firstAttempt, spent, crashes, seq, rev, submittedAt, startedAt, cancelAt] = row.map(Number);
  const stored = readable(() => {
    if (request === null) throw new TurnqError("corrupt", "the stored request is missing", { where: `turn ${turn}` });
    return decode("request", request, `turn ${turn}`);
  });
  return {
    request: stored.value ?? unreadableRequest(turn),
    ...(stored.problem === undefined ? {} : { unreadable: stored.problem }),
    generation: generation ?? 1,
    firstAttempt: firstAttempt ?? 1,
    spent: spent ?? 0,
    crashes: crashes ?? 0,
    seq: seq ?? 0,
    rev: rev ?? 0,
    submittedAt: submittedAt ?? 0,
    startedAt: startedAt ?? 0,
    ...(cancelAt === undefined || cancelAt === 0 ? {} : { cancel: { reason: row[9] ?? "", requestedAt: cancelAt } }),
    attempts: closedAttempts(attempts),
  };
}

/** Closed attempts of a turn from its hash (field, value, field, value …), in order. */
export function closedAttempts(flat: readonly string[]): ClosedAttempt[] {
  const fields = new Map<string, string>();
  for (let i = 0; i + 1 < flat.length; i += 2) fields.set(flat[i] ?? "", flat[i + 1] ?? "");
  const closed: ClosedAttempt[] = [];
  for (const [field, value] of fields) {
    // Only a closed attempt has `N:by`; an open one holds no more than who runs it.
    if (field.includes(":") || !fields.has(`${field}:by`)) continue;
    const summary = readable(() => JSON.parse(value) as ClosedAttempt).value ?? unreadableAttempt(Number(field));
    const late = fields.get(`${field}:late`);
    // Late usage that cannot be read is spend that is not known: the sum then says so.
    const readLate =
      late === undefined ? undefined : (readable(() => Usage.parse(JSON.parse(late))).value ?? { ...UNKNOWN_USAGE });
    closed.push(readLate === undefined ? summary : { ...summary, late: readLate });
  }
  return closed.toSorted((a, b) => a.attempt - b.attempt);
}
