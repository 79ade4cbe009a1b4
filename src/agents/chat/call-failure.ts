import { APICallError } from "ai";
import { messageOf } from "../../domain/error.ts";
import { failure, type Failure, type FailureCode } from "../../domain/failure.ts";
import { retryAtOf } from "./retry-after.ts";

/** A call to a model failed. `billed` is false where the provider refused it before it did anything. */
export interface CallFailure {
  readonly failure: Failure;
  readonly billed: boolean;
}

const QUOTA = /insufficient_quota|quota_exceeded|billing|credit balance|exceeded your current quota/i;
const CONTEXT = /context[ _-]?(length|window)|maximum context|too many tokens|prompt is too long|input is too long/i;
const FILTER = /content[ _-]?(filter|policy|management)|safety|moderation/i;
const OVERLOADED = 529;
/** How much of a provider's body is told. */
const BODY_CHARS = 300;

/** What a failed call means. `secrets` are kept out of the message. */
export function callFailure(thrown: unknown, now: number, secrets: readonly string[]): CallFailure {
  const error = innermost(thrown);
  if (APICallError.isInstance(error) && error.statusCode !== undefined && error.statusCode >= 400)
    return { failure: refusal(error, error.statusCode, now, secrets), billed: false };
  const text = withoutSecrets(causes(error), secrets);
  if (neverArrived(error))
    return {
      failure: failure("agent_error", `the provider cannot be reached: ${text}`, { retryable: true }),
      billed: false,
    };
  return { failure: failure("agent_crash", `the provider's answer broke off: ${text}`), billed: true };
}

function refusal(error: APICallError, status: number, now: number, secrets: readonly string[]): Failure {
  const body = error.responseBody ?? "";
  const retryAt = retryAtOf(error.responseHeaders ?? {}, now);
  const code = codeOf(status, body, retryAt !== undefined);
  const text = withoutSecrets(`the provider answered ${status}: ${saidIn(error, body)}`, secrets);
  return failure(code, text, {
    ...(code === "agent_error" ? { retryable: true } : {}),
    ...(retryAt === undefined ? {} : { retryAt }),
  });
}

function codeOf(status: number, body: string, saysWhen: boolean): FailureCode {
  if (status === 429) return QUOTA.test(body) ? "quota_exhausted" : "rate_limited";
  if (status === OVERLOADED || /overloaded/i.test(body)) return "overloaded";
  if (status >= 500) return saysWhen ? "overloaded" : "agent_error";
  return BY_STATUS[status] ?? codeOfBody(body);
}

const BY_STATUS: Readonly<Record<number, FailureCode>> = {
  401: "auth",
  402: "quota_exhausted",
  403: "auth",
  404: "config",
  408: "agent_error",
  409: "agent_error",
  413: "context_overflow",
};

function codeOfBody(body: string): FailureCode {
  if (CONTEXT.test(body)) return "context_overflow";
  return FILTER.test(body) ? "refused" : "invalid_request";
}

function saidIn(error: APICallError, body: string): string {
  const message = messageOf(error).trim();
  const said = message === "" ? body : message;
  return said.length > BODY_CHARS ? `${said.slice(0, BODY_CHARS)}…` : said;
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

const UNREACHED = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "UND_ERR_CONNECT_TIMEOUT",
  "ERR_INVALID_URL",
]);

/** True when no byte of the request can have been read. */
function neverArrived(error: unknown): boolean {
  for (let depth = 0, at = error; depth < 5 && at !== undefined; depth += 1, at = field(at, "cause")) {
    const code = field(at, "code");
    if (typeof code === "string" && UNREACHED.has(code)) return true;
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

/** The text without the secrets in it. */
export function withoutSecrets(text: string, secrets: readonly string[]): string {
  return secrets.reduce((clean, secret) => (secret === "" ? clean : clean.replaceAll(secret, "[redacted]")), text);
}
