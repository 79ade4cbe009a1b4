import { messageOf } from "../../domain/error.ts";
import { failure, type Failure } from "../../domain/failure.ts";
import { cutText } from "../../domain/text.ts";
import { maskSecrets } from "../../process/mask.ts";
import { meaningOf, type ProviderError } from "./error-meaning.ts";
import { field } from "./field.ts";
import type { HeardAnswer, HeardError } from "./heard-answer.ts";
import { retryAtOf } from "./retry-after.ts";
import { errorIn, saidError } from "./said-error.ts";

/** A call to a model failed. `billed` is false where nothing can have been paid for: what it used is then known. */
export interface CallFailure {
  readonly failure: Failure;
  readonly billed: boolean;
}

export interface FailedCall {
  readonly now: number;
  /** What must not be in any message. */
  readonly secrets: readonly string[];
  /** The provider had begun to answer. */
  readonly answering: boolean;
  /** What was heard of the answer, where one of status 200 had begun. */
  readonly heard?: Pick<HeardAnswer, "error" | "headers"> | undefined;
}

type Headers = Readonly<Record<string, string>>;

/** How much of a provider's words is told. */
const WORDS_CHARS = 300;

/** What a failed call means. */
export function callFailure(thrown: unknown, call: FailedCall): CallFailure {
  const { secrets, answering, heard } = call;
  const error = innermost(thrown);
  const said = heard?.error ?? thrownBySomeSdk(error);
  if (said !== undefined) return saidFailure(said, call);
  const status = field(error, "statusCode");
  // The SDK makes a status of its own for some of what it meets after a 200.
  if (heard === undefined && typeof status === "number" && status >= 400)
    return { failure: refusal(error, status, call), billed: false };
  const text = withoutSecrets(causes(error), secrets);
  const name = field(error, "name");
  if (typeof name === "string" && UNSENDABLE.has(name))
    return { failure: failure("invalid_request", `cannot be sent to this model: ${text}`), billed: false };
  if (!answering && hasCode(error, UNREACHED))
    return { failure: failure("agent_error", `the provider cannot be reached: ${text}`, MAY_PASS), billed: false };
  // It may have read the request before it hung up, so that nobody knows what this cost.
  if (!answering && hasCode(error, HUNG_UP))
    return { failure: failure("agent_error", `the provider did not answer: ${text}`, MAY_PASS), billed: true };
  return { failure: failure("agent_crash", `the provider's answer broke off: ${text}`), billed: true };
}

const MAY_PASS = { retryable: true } as const;

/** An error inside of an answer: with nothing before it, it is as good as a status. */
function saidFailure(said: HeardError, call: FailedCall): CallFailure {
  const words = wordsOf(said.message, call);
  const text = said.isFirst
    ? `the provider answered with an error: ${words}`
    : `the provider ended its answer: ${words}`;
  return { failure: refused(said, call.heard?.headers ?? {}, text, call), billed: !said.isFirst };
}

/** An error in the middle of an answer, as it is where nobody has heard the answer itself. */
function thrownBySomeSdk(error: unknown): HeardError | undefined {
  const isPlain = !(error instanceof Error) && typeof error === "object" && error !== null;
  return isPlain ? { ...(errorIn(error) ?? saidError(error)), isFirst: false } : undefined;
}

function refusal(error: unknown, status: number, call: FailedCall): Failure {
  const body = field(error, "responseBody");
  const text = typeof body === "string" ? body : "";
  const { kind } = saidIn(text);
  const message = messageOf(error).trim();
  const words = `the provider answered ${status}: ${wordsOf(message === "" ? text : message, call)}`;
  return refused({ status, kind, text }, (field(error, "responseHeaders") ?? {}) as Headers, words, call);
}

/** The beginning of what a provider said. Its secrets go first: of one that is cut nobody knows any more that it is one. */
function wordsOf(said: string, { secrets }: FailedCall): string {
  return cutText(withoutSecrets(said, secrets), WORDS_CHARS);
}

function saidIn(body: string): { readonly kind: string } {
  try {
    const piece: unknown = JSON.parse(body);
    return errorIn(piece) ?? saidError(piece);
  } catch {
    return { kind: "" };
  }
}

/** The failure of an error that the provider told of, as a status or in an answer. */
function refused(
  error: Pick<ProviderError, "status" | "kind" | "text">,
  headers: Headers,
  words: string,
  { now }: FailedCall,
): Failure {
  const saysWhen = retryAtOf(headers, now, false) !== undefined;
  const code = meaningOf({ ...error, saysWhen });
  const retryAt = retryAtOf(headers, now, error.status === 429 || code === "rate_limited");
  return failure(code, words, {
    ...(code === "agent_error" ? MAY_PASS : {}),
    ...(retryAt === undefined ? {} : { retryAt }),
  });
}

/** The SDK's own refusals of what a provider cannot be given. */
const UNSENDABLE: ReadonlySet<string> = new Set([
  "AI_UnsupportedFunctionalityError",
  "AI_InvalidPromptError",
  "AI_InvalidDataContentError",
  "AI_InvalidMessageRoleError",
  "AI_InvalidArgumentError",
]);

/** The SDK wraps errors in errors of its own, also the last one of several tries. */
function innermost(thrown: unknown): unknown {
  let error = thrown;
  for (let depth = 0; depth < 5 && field(error, "statusCode") === undefined; depth += 1) {
    const inner = field(error, "lastError") ?? undefined;
    if (inner === undefined) return error;
    error = inner;
  }
  return error;
}

/** No byte of the request can have been read. */
const UNREACHED: ReadonlySet<string> = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "UND_ERR_CONNECT_TIMEOUT",
  "ERR_INVALID_URL",
]);
/** The connection ended before an answer began. */
const HUNG_UP: ReadonlySet<string> = new Set(["ECONNRESET", "EPIPE", "ETIMEDOUT", "UND_ERR_SOCKET"]);

function hasCode(error: unknown, codes: ReadonlySet<string>): boolean {
  for (let depth = 0, at = error; depth < 5 && at !== undefined; depth += 1, at = field(at, "cause")) {
    const code = field(at, "code");
    if (typeof code === "string" && codes.has(code)) return true;
  }
  return false;
}

function causes(error: unknown): string {
  const said: string[] = [];
  for (let depth = 0, at = error; depth < 3 && at !== undefined && at !== null; depth += 1, at = field(at, "cause")) {
    const text = messageOf(at);
    if (!said.some((before) => before.includes(text))) said.push(text);
  }
  return said.join(": ");
}

/** Shorter ones (`1`, `true`) would blacken the text and hide nothing. */
const SECRET_MIN = 6;

/** The text without the secrets in it, and without what looks like one. */
function withoutSecrets(text: string, secrets: readonly string[]): string {
  const longOnes = secrets.filter((secret) => secret.length >= SECRET_MIN);
  return maskSecrets(longOnes.reduce((clean, secret) => clean.replaceAll(secret, "[masked]"), text));
}
