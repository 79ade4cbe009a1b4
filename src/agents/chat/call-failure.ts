import { APICallError } from "ai";
import { messageOf } from "../../domain/error.ts";
import { failure, type Failure, type FailureCode } from "../../domain/failure.ts";
import { cutText } from "../../domain/text.ts";
import { maskSecrets } from "../../process/mask.ts";
import { retryAtOf } from "./retry-after.ts";

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
}

/** How much of a provider's body is told. */
const BODY_CHARS = 300;

/** What a failed call means. */
export function callFailure(thrown: unknown, { now, secrets, answering }: FailedCall): CallFailure {
  const error = innermost(thrown);
  if (APICallError.isInstance(error) && error.statusCode !== undefined && error.statusCode >= 400)
    return { failure: refusal(error, error.statusCode, now, secrets), billed: false };
  const text = withoutSecrets(causes(error), secrets);
  const name = field(error, "name");
  if (typeof name === "string" && UNSENDABLE.has(name))
    return { failure: failure("invalid_request", `cannot be sent to this model: ${text}`), billed: false };
  const said = saidInStream(error);
  if (said !== undefined)
    return { failure: failure(said, `the provider ended its answer: ${text}`, mayPass(said)), billed: true };
  if (!answering && hasCode(error, UNREACHED))
    return { failure: failure("agent_error", `the provider cannot be reached: ${text}`, MAY_PASS), billed: false };
  // It may have read the request before it hung up, so that nobody knows what this cost.
  if (!answering && hasCode(error, HUNG_UP))
    return { failure: failure("agent_error", `the provider did not answer: ${text}`, MAY_PASS), billed: true };
  return { failure: failure("agent_crash", `the provider's answer broke off: ${text}`), billed: true };
}

const MAY_PASS = { retryable: true } as const;

function mayPass(code: FailureCode): { readonly retryable?: true } {
  return code === "agent_error" ? MAY_PASS : {};
}

function refusal(error: APICallError, status: number, now: number, secrets: readonly string[]): Failure {
  const body = error.responseBody ?? "";
  const code = codeOf(status, body, error.responseHeaders ?? {});
  const retryAt = retryAtOf(error.responseHeaders ?? {}, now, status === 429);
  const text = withoutSecrets(`the provider answered ${status}: ${wordsOf(error, body)}`, secrets);
  return failure(code, text, { ...mayPass(code), ...(retryAt === undefined ? {} : { retryAt }) });
}

function codeOf(status: number, body: string, headers: Readonly<Record<string, string>>): FailureCode {
  if (status === 429) return QUOTA.test(body) ? "quota_exhausted" : "rate_limited";
  if (status >= 500) return codeOfServerError(status, body, retryAtOf(headers, 0, false) !== undefined);
  if (status === 403) return FILTER.test(body) ? "refused" : "auth";
  return BY_STATUS[status] ?? codeOfBody(body);
}

/** Errors that a provider meets after it said 200 come out of the SDK as 500 with the error's own kind. */
function codeOfServerError(status: number, body: string, saysWhen: boolean): FailureCode {
  if (status === 529 || /overloaded/i.test(body)) return "overloaded";
  if (/rate_limit_(error|exceeded)/.test(body)) return "rate_limited";
  return saysWhen ? "overloaded" : "agent_error";
}

const BY_STATUS: Readonly<Record<number, FailureCode>> = {
  401: "auth",
  402: "quota_exhausted",
  404: "config",
  408: "agent_error",
  409: "agent_error",
  413: "context_overflow",
  425: "agent_error",
};

const QUOTA = /insufficient_quota|quota_exceeded|billing_hard_limit|credit balance|exceeded your current quota/i;
const CONTEXT =
  /context[ _-]?(length|window)|maximum context|too many tokens|prompt is too long|input is too long|input token count/i;
const FILTER = /content[ _-]?(filter|policy|management)|safety|moderation|flagged/i;
const KEY = /(invalid|incorrect|no valid)[ _](x-)?api[ _-]?key|api[ _-]?key not valid/i;

function codeOfBody(body: string): FailureCode {
  if (KEY.test(body)) return "auth";
  if (CONTEXT.test(body)) return "context_overflow";
  return FILTER.test(body) ? "refused" : "invalid_request";
}

/** What an error in the middle of an answer means, where it says its kind; undefined where it does not. */
function saidInStream(error: unknown): FailureCode | undefined {
  if (error instanceof Error || typeof error !== "object" || error === null) return undefined;
  const kind = [field(error, "type"), field(error, "code")].filter((part) => typeof part === "string").join(" ");
  return IN_STREAM.find(([pattern]) => pattern.test(kind))?.[1];
}

const IN_STREAM: readonly (readonly [RegExp, FailureCode])[] = [
  [/overloaded/, "overloaded"],
  [/insufficient_quota/, "quota_exhausted"],
  [/rate_limit/, "rate_limited"],
  [/authentication|permission/, "auth"],
  [/context_length/, "context_overflow"],
  [/content_(filter|policy)/, "refused"],
  [/invalid_request/, "invalid_request"],
];

/** The SDK's own refusals of what a provider cannot be given. */
const UNSENDABLE: ReadonlySet<string> = new Set([
  "AI_UnsupportedFunctionalityError",
  "AI_InvalidPromptError",
  "AI_InvalidDataContentError",
  "AI_InvalidMessageRoleError",
  "AI_InvalidArgumentError",
]);

function wordsOf(error: APICallError, body: string): string {
  const message = messageOf(error).trim();
  return cutText(message === "" ? body : message, BODY_CHARS);
}

/** The SDK wraps errors in errors of its own, also the last one of several tries. */
function innermost(thrown: unknown): unknown {
  let error = thrown;
  for (let depth = 0; depth < 5 && !APICallError.isInstance(error); depth += 1) {
    const inner: unknown = field(error, "lastError") ?? undefined;
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

function field(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? (Reflect.get(value, name) as unknown) : undefined;
}

/** Shorter ones (`1`, `true`) would blacken the text and hide nothing. */
const SECRET_MIN = 6;

/** The text without the secrets in it, and without what looks like one. */
function withoutSecrets(text: string, secrets: readonly string[]): string {
  const longOnes = secrets.filter((secret) => secret.length >= SECRET_MIN);
  return maskSecrets(longOnes.reduce((clean, secret) => clean.replaceAll(secret, "[masked]"), text));
}
