/**
 * Every error that turnq throws at a caller, by its stable code. A code is never renamed; its
 * message may change. `docs/errors.md` lists the same codes and a test holds the two together.
 */
export const ERROR_CODES = {
  // input
  invalid_request: "The turn request, option or input line is not valid.",
  invalid_input: "A file or stream of turns has lines that cannot be used.",
  no_turns: "The input holds no turn.",
  file: "A file cannot be read or written.",
  invalid_id: "An id is not 1 to 200 characters of letters, digits and . _ - / : @.",
  id_conflict: "A turn with this id exists with other content.",
  batch_conflict: "A sample of this batch exists with other content.",
  session_lane: "The session is bound to another lane.",
  unknown_agent: "No agent of this name is known.",
  unsupported: "The agent cannot do what the request asks of it.",
  config: "The configuration is not valid.",
  others_waiting: "Turns of others wait in the lanes, and only one's own were to be run.",
  // looking things up
  not_found: "There is no such turn, batch or record.",
  ambiguous: "More than one turn has this id; name the lane.",
  // agents
  not_started: "communicate was called before start.",
  agent_crash: "The agent threw, its process died or its stream was garbled.",
  turn_timeout: "The turn reached its deadline.",
  // services
  redis_unreachable: "Redis does not answer in time.",
  redis_refused: "Redis answered with an error.",
  redis_missing: "No redis-server was found on this machine.",
  wait_timeout: "The Result was not there within waitMs; the turn goes on.",
  closed: "This handle has been closed.",
  corrupt: "Something stored cannot be read.",
  internal: "A fault of turnq itself.",
} as const;

export type ErrorCode = keyof typeof ERROR_CODES;

export interface TurnqErrorOptions {
  readonly cause?: unknown;
  /** Where: a file, line or field, as the user knows it. */
  readonly where?: string | undefined;
  /** What to do about it, a sentence. */
  readonly hint?: string | undefined;
  /** Facts for programs. */
  readonly details?: Readonly<Record<string, unknown>> | undefined;
}

/** What turnq throws. `code` is from {@link ERROR_CODES}; the message says what, where and what to do. */
export class TurnqError extends Error {
  override readonly name: string = "TurnqError";
  readonly code: ErrorCode;
  /** What is wrong, without where and hint: a clause, without a full stop. */
  readonly what: string;
  readonly where: string | undefined;
  readonly hint: string | undefined;
  readonly details: Readonly<Record<string, unknown>> | undefined;

  constructor(code: ErrorCode, message: string, options: TurnqErrorOptions = {}) {
    super(
      messageText(message, options.where, options.hint),
      options.cause === undefined ? undefined : { cause: options.cause },
    );
    this.code = code;
    this.what = message;
    this.where = options.where;
    this.hint = options.hint;
    this.details = options.details;
  }
}

/** What is wrong, where, and what to do about it, as sentences: the one place that joins them and sets the marks between. */
function messageText(what: string, where = "", hint = ""): string {
  const said = where === "" ? what : `${where.replace(/[:\s]+$/, "")}: ${what}`;
  if (hint === "") return said;
  // Lines of a list are no sentence that another could follow.
  return said.includes("\n") ? `${said.trimEnd()}\n${sentence(hint)}` : `${sentence(said)} ${sentence(hint)}`;
}

/** Ends with the mark that it has, else with a full stop. */
function sentence(text: string): string {
  const whole = text.trimEnd();
  return /[.!?…]["']?$/.test(whole) ? whole : `${whole.replace(/[,;:]+$/, "")}.`;
}

/** True for a {@link TurnqError}, also one from another copy of this package. */
export function isTurnqError(value: unknown, code?: ErrorCode): value is TurnqError {
  if (!(value instanceof Error) || !("code" in value)) return false;
  const found = value.code;
  if (typeof found !== "string" || !Object.hasOwn(ERROR_CODES, found)) return false;
  return code === undefined || found === code;
}

/** The text of anything that was thrown, also null, a string or an object without a message. Never throws. */
export function messageOf(thrown: unknown): string {
  if (typeof thrown === "string") return thrown;
  if (thrown === null || thrown === undefined) return `${String(thrown)} was thrown`;
  try {
    return messageOfValue(thrown);
  } catch {
    // A getter or proxy that throws, a cycle, a value without text.
    return "a value that cannot be read was thrown";
  }
}

function messageOfValue(thrown: NonNullable<unknown>): string {
  if (typeof thrown === "bigint" || typeof thrown === "symbol" || typeof thrown === "function")
    return thrown.toString();
  if (typeof thrown !== "object") return JSON.stringify(thrown);
  if ("message" in thrown && typeof thrown.message === "string" && thrown.message !== "") return thrown.message;
  if (thrown instanceof Error) return String(thrown.name);
  return JSON.stringify(thrown) ?? "a value without text was thrown";
}
