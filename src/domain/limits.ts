import { z } from "zod";

const wholeMs = z.number().int().nonnegative().max(Number.MAX_SAFE_INTEGER);
const atLeastOne = z.number().int().min(1);

/** The longest delay of one timer: `setTimeout` fires at once above it. */
export const TIMER_MAX_MS = 2 ** 31 - 1;

/** Default of `limits.timeoutMs`: ten minutes. */
export const DEFAULT_TIMEOUT_MS = 600_000;
/** Default of `limits.graceMs`: what an agent has between `shouldStop` and the kill. */
export const DEFAULT_GRACE_MS = 5_000;

/** The bounds of `limits.maxMemoryMb`: no process of ours does with less, no machine has more. */
const MEMORY_MB_MIN = 16;
const MEMORY_MB_MAX = 2 ** 24;

/** The highest `limits.maxTranscriptChars`: what is stored as a whole must fit into a worker's memory many times over. */
const TRANSCRIPT_LIMIT_MAX = 32 * 1024 * 1024;

const limitFields = {
  timeoutMs: wholeMs.min(1),
  graceMs: wholeMs,
  /** Longest silence of the agent, in ms; no event for so long is a failure `idle_timeout`. */
  idleMs: wholeMs.min(1).optional(),
  maxSteps: atLeastOne.optional(),
  maxToolCalls: atLeastOne.optional(),
  maxTokens: atLeastOne.optional(),
  /** US dollars. Needs an agent whose cost is known. */
  maxCostUsd: z.number().positive().max(1e9).optional(),
  /** Characters (UTF-16 units) of one attempt's transcript that are kept; 8 Mi unless given. What is over is cut with a note. */
  maxTranscriptChars: z.number().int().min(1000).max(TRANSCRIPT_LIMIT_MAX).optional(),
  /** MiB that all processes of an attempt hold together. Needs an agent that runs in processes of its own. */
  maxMemoryMb: z.number().int().min(MEMORY_MB_MIN).max(MEMORY_MB_MAX).optional(),
};

/** What one turn may use. `timeoutMs`, `graceMs`, `idleMs`, `maxTranscriptChars` and `maxMemoryMb` hold for one attempt, the counts and the cost over all attempts of a generation. */
export const Limits = z.object(limitFields);
export type Limits = z.infer<typeof Limits>;
/** Limits as someone gives them: every field may be left out, no other may be there. */
export const LimitsInput = z.strictObject(limitFields).partial();
export type LimitsInput = z.infer<typeof LimitsInput>;

const backoffFields = {
  delayMs: wholeMs,
  factor: z.number().min(1).max(100),
  maxMs: wholeMs,
  jitter: z.number().min(0).max(1),
};

/** How long to wait before the next attempt: `delayMs` × `factor`^n, at most `maxMs`, spread by ± `jitter`. */
export const Backoff = z.object(backoffFields);
export type Backoff = z.infer<typeof Backoff>;

const retryFields = {
  maxAttempts: atLeastOne,
  maxCrashes: atLeastOne,
  onTimeout: z.boolean(),
  onOutOfMemory: z.boolean(),
  afterToolCalls: z.enum(["always", "never"]),
};

/** When a failed attempt is followed by another. `maxAttempts` counts attempts that spend one, `maxCrashes` lost workers. */
export const Retry = z.object({ ...retryFields, onOutOfMemory: z.boolean().default(false), backoff: Backoff });
export type Retry = z.infer<typeof Retry>;
/** Retry rules as someone gives them: every field may be left out, no other may be there. */
export const RetryInput = z
  .strictObject({ ...retryFields, backoff: z.strictObject(backoffFields).partial() })
  .partial();
export type RetryInput = z.infer<typeof RetryInput>;

/** The rules of a turn about which nobody said anything. */
export const DEFAULT_RETRY: Retry = Object.freeze({
  maxAttempts: 3,
  maxCrashes: 3,
  backoff: Object.freeze({ delayMs: 1000, factor: 2, maxMs: 60_000, jitter: 0.2 }),
  onTimeout: false,
  onOutOfMemory: false,
  afterToolCalls: "always",
});

/** The limits that hold, the first layer that names a field winning, else the default. */
export function resolveLimits(...layers: (LimitsInput | undefined)[]): Limits {
  return merge<Limits>({ timeoutMs: DEFAULT_TIMEOUT_MS, graceMs: DEFAULT_GRACE_MS }, layers);
}

/** The retry rules that hold, the first layer that names a field winning, else the default. */
export function resolveRetry(...layers: (RetryInput | undefined)[]): Retry {
  const backoff = merge<Backoff>(
    DEFAULT_RETRY.backoff,
    layers.map((layer) => layer?.backoff),
  );
  return {
    ...merge<Omit<Retry, "backoff">>(
      DEFAULT_RETRY,
      layers.map((layer) => ({ ...layer, backoff: undefined })),
    ),
    backoff,
  };
}

function merge<T extends object>(base: T, layers: readonly (object | undefined)[]): T {
  const merged: T = { ...base };
  for (const layer of layers.toReversed()) {
    for (const [key, value] of Object.entries(layer ?? {}))
      if (value !== undefined) Object.assign(merged, { [key]: value });
  }
  return merged;
}

/**
 * When `shouldStop` begins to answer `deadline`, in ms after the start:
 * earlier than the deadline by min(graceMs, timeoutMs / 10).
 */
export function cooperativeDeadlineMs(limits: Pick<Limits, "timeoutMs" | "graceMs">): number {
  return limits.timeoutMs - Math.min(limits.graceMs, limits.timeoutMs / 10);
}

/** The wait before attempt n + 1, in ms. `spent` (from 1) counts the attempts that spent one; `random` gives 0 to 1. */
export function backoffMs(backoff: Backoff, spent: number, random: () => number): number {
  // The power can be infinite, and infinity times 0 is no number.
  const plain =
    backoff.delayMs === 0 ? 0 : Math.min(backoff.maxMs, backoff.delayMs * backoff.factor ** Math.max(0, spent - 1));
  const spread = 1 + backoff.jitter * (2 * random() - 1);
  return Math.max(0, Math.round(Math.min(backoff.maxMs, plain * spread)));
}
