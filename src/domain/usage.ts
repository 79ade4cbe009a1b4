import { z } from "zod";
import { COST_MAX_USD, wholeCost } from "./cost.ts";

const count = z.number().int().nonnegative();
/** Above it sums are not exact any more; whoever claims more reports no figure. */
const MOST = Number.MAX_SAFE_INTEGER;

/**
 * What something cost. A figure that nobody reported is absent, never 0 and never guessed.
 * `inputTokens` is the uncached part. `modelCalls` and `toolCalls` are counted from events.
 * `costUsd` is rounded to the billionth when it is reported, and sums of it are exact.
 * `known`: `reported` (all of it), `partial` (some of it; a floor), `unknown` (nothing was reported).
 */
export const Usage = z.object({
  inputTokens: count.optional(),
  outputTokens: count.optional(),
  cacheReadTokens: count.optional(),
  cacheWriteTokens: count.optional(),
  reasoningTokens: count.optional(),
  costUsd: z.number().nonnegative().max(MOST).optional(),
  modelCalls: count,
  toolCalls: count,
  known: z.enum(["reported", "partial", "unknown"]),
});
export type Usage = z.infer<typeof Usage>;

/** The fields that hold an amount, in the order in which they are shown. */
export const USAGE_FIELDS = [
  "inputTokens",
  "outputTokens",
  "cacheReadTokens",
  "cacheWriteTokens",
  "reasoningTokens",
  "costUsd",
  "modelCalls",
  "toolCalls",
] as const satisfies readonly (keyof Usage)[];
export type UsageField = Exclude<keyof Usage, "known">;

/** The sum of nothing. */
export const NO_USAGE: Usage = Object.freeze({ modelCalls: 0, toolCalls: 0, known: "reported" });

/** Usage of which nothing was reported. */
export const UNKNOWN_USAGE: Usage = Object.freeze({ modelCalls: 0, toolCalls: 0, known: "unknown" });

/**
 * Usage as someone outside gave it. A figure that is none (NaN, below 0, a text, over 2^53 - 1, over a million dollars) counts as not reported, and the usage says
 * that it lacks something. `unless` holds what is meant by a field that is not there. Never throws.
 */
export function readUsage(said: object, unless: Partial<Usage> = {}): Usage {
  const usage: Usage = { ...NO_USAGE };
  let whole = true;
  let any = false;
  const read = (field: keyof Usage): unknown => {
    try {
      return (Reflect.get(said, field) as unknown) ?? unless[field];
    } catch {
      return Number.NaN;
    }
  };
  for (const field of USAGE_FIELDS) {
    const value = read(field);
    if (value === undefined) continue;
    const { data } = Usage.shape[field].safeParse(value);
    if (data === undefined || (field === "costUsd" && data > COST_MAX_USD)) whole = false;
    else {
      usage[field] = data === 0 ? 0 : rounded(field, data); // JSON has no -0
      any ||= field !== "modelCalls" && field !== "toolCalls";
    }
  }
  const known = Usage.shape.known.safeParse(read("known")).data;
  if (known !== undefined && whole) return { ...usage, known };
  return { ...usage, known: any ? "partial" : "unknown" };
}

/** A figure as it is kept: only costs have fractions. */
function rounded(field: UsageField, value: number): number {
  return field === "costUsd" ? wholeCost(value) : value;
}

/** Sums what is known, up to 2^53 - 1 a figure; `known` stays where both agree, mixed is `partial`. */
export function addUsage(a: Usage, b: Usage): Usage {
  const sum: Usage = { ...a, known: a.known === b.known ? a.known : "partial" };
  for (const field of USAGE_FIELDS) {
    const more = b[field];
    if (more !== undefined) sum[field] = Math.min(MOST, rounded(field, (sum[field] ?? 0) + more));
  }
  return sum;
}

/** The sum over a list; of an empty list no calls, `reported`. */
export function sumUsage(list: Iterable<Usage>): Usage {
  let sum: Usage | undefined;
  for (const usage of list) sum = sum === undefined ? { ...usage } : addUsage(sum, usage);
  return sum ?? { ...NO_USAGE };
}

/**
 * What `later` holds beyond `booked`, field by field, never below 0; undefined when nothing.
 * For spend that a stale attempt reports after it was booked as lost.
 */
export function exceedingUsage(later: Usage, booked: Usage): Usage | undefined {
  const more: Usage = { modelCalls: 0, toolCalls: 0, known: later.known };
  let any = false;
  for (const field of USAGE_FIELDS) {
    const extra = rounded(field, (later[field] ?? 0) - (booked[field] ?? 0));
    if (extra <= 0) continue;
    more[field] = extra;
    any = true;
  }
  return any ? more : undefined;
}

/** Input and output tokens, cached and reasoning ones included as the provider counts them; undefined when none is known. */
export function totalTokens(usage: Usage): number | undefined {
  const parts = [usage.inputTokens, usage.outputTokens, usage.cacheReadTokens, usage.cacheWriteTokens];
  const known = parts.filter((part) => part !== undefined);
  return known.length === 0 ? undefined : known.reduce((sum, part) => sum + part, 0);
}
