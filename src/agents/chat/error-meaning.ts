import type { FailureCode } from "../../domain/failure.ts";

/** An error as a provider tells of it: as an HTTP status with a body, or inside of an answer whose status was 200. */
export interface ProviderError {
  /** The HTTP status, or the one that is named inside. */
  readonly status: number | undefined;
  /** The names that it has: `overloaded_error`, `rate_limit_exceeded` … */
  readonly kind: string;
  /** All that was said. */
  readonly text: string;
  /** It comes with an instant at which one may ask again. */
  readonly saysWhen: boolean;
}

/** What an error means: the same wherever it is said. One that nobody knows is an `agent_error`, which may pass. */
export function meaningOf(error: ProviderError): FailureCode {
  const status = statusOf(error);
  const { text } = error;
  if (status === undefined) return "agent_error";
  if (status === 429) return QUOTA.test(text) ? "quota_exhausted" : "rate_limited";
  if (status === 403) return FILTER.test(text) ? "refused" : "auth";
  if (status >= 500) return status === 529 || OVERLOADED.test(text) || error.saysWhen ? "overloaded" : "agent_error";
  return BY_STATUS[status] ?? ofBadRequest(text);
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

/** The status that an error would have had, had it come before the answer began. */
const BY_KIND: readonly (readonly [RegExp, number])[] = [
  [/overloaded/i, 529],
  [/insufficient_quota|quota_exceeded|billing_hard_limit/i, 429],
  [/rate_?limit|too_?many_?requests|throttl|resource_exhausted/i, 429],
  [/billing|insufficient_(balance|credit|fund)|payment_required/i, 402],
  [/authentication|unauthori[sz]ed|unauthenticated|(invalid|incorrect)_api_key/i, 401],
  [/permission|forbidden|access_denied/i, 403],
  [/context_length|context_window|content_(filter|policy)/i, 400],
  [/too_large/i, 413],
  [/not_?found/i, 404],
  [/invalid_?(request|argument|parameter|prompt)|bad_?request|unprocessable/i, 400],
  [/timeout|server_?error|internal|api_error|unavailable/i, 500],
];

/** Where an error has neither a status nor a name, its words are all there is. */
const BY_WORDS: readonly (readonly [RegExp, number])[] = [
  [/overloaded/i, 529],
  [/rate[ _-]?limit|too many requests/i, 429],
];

const OVERLOADED = /overloaded/i;
const QUOTA = /insufficient_quota|quota_exceeded|billing_hard_limit|credit balance|exceeded your current quota/i;
const CONTEXT =
  /context[ _-]?(length|window)|maximum context|too many tokens|prompt is too long|input is too long|input token count/i;
const FILTER = /content[ _-]?(filter|policy|management)|safety|moderation|flagged/i;
const KEY = /(invalid|incorrect|no valid)[ _](x-)?api[ _-]?key|api[ _-]?key not valid/i;

/** A name says more than a status that stands for anything, and less than one that stands for one thing. */
function statusOf({ status, kind, text }: ProviderError): number | undefined {
  const named = BY_KIND.find(([pattern]) => pattern.test(kind))?.[1];
  if (status === undefined) return named ?? statusOfWords(text);
  const refusesForNow = named === 429 || named === 529;
  if (status >= 500) return refusesForNow ? named : status;
  const anything = status === 400 || status === 422;
  return anything && named !== undefined && (named < 500 || refusesForNow) ? named : status;
}

function statusOfWords(text: string): number | undefined {
  if (QUOTA.test(text)) return 429;
  if (KEY.test(text)) return 401;
  return BY_WORDS.find(([pattern]) => pattern.test(text))?.[1] ?? (CONTEXT.test(text) ? 400 : undefined);
}

function ofBadRequest(text: string): FailureCode {
  if (KEY.test(text)) return "auth";
  if (CONTEXT.test(text)) return "context_overflow";
  return FILTER.test(text) ? "refused" : "invalid_request";
}
