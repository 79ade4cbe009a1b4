import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type Backoff,
  DEFAULT_RETRY,
  Limits,
  LimitsInput,
  Retry,
  RetryInput,
  backoffMs,
  cooperativeDeadlineMs,
  resolveLimits,
  resolveRetry,
} from "../../../src/domain/limits.ts";

describe("layers of limits", () => {
  test("the first layer that names a field wins, else the default", () => {
    expect(resolveLimits()).toEqual({ timeoutMs: 600_000, graceMs: 5000 });
    expect(resolveLimits({ graceMs: 1 }, undefined, { graceMs: 2, maxSteps: 3 })).toEqual({
      timeoutMs: 600_000,
      graceMs: 1,
      maxSteps: 3,
    });
    expect(resolveRetry()).toEqual(DEFAULT_RETRY);
    expect(resolveRetry({ backoff: { jitter: 0 } }, { maxAttempts: 1, backoff: { jitter: 1, delayMs: 5 } })).toEqual({
      ...DEFAULT_RETRY,
      maxAttempts: 1,
      backoff: { ...DEFAULT_RETRY.backoff, jitter: 0, delayMs: 5 },
    });
  });

  test("what comes out is whole, and unknown keys do not come in", () => {
    expect(Limits.safeParse(resolveLimits({ maxTokens: 5 })).success).toBe(true);
    expect(Retry.safeParse(resolveRetry({})).success).toBe(true);
    expect(LimitsInput.safeParse({ timeoutms: 5 }).success).toBe(false);
    expect(RetryInput.safeParse({ backoff: { delay: 5 } }).success).toBe(false);
    for (const bad of [
      { timeoutMs: 0 },
      { timeoutMs: 1.5 },
      { graceMs: -1 },
      { maxSteps: 0 },
      { timeoutMs: Number.POSITIVE_INFINITY },
    ]) {
      expect(LimitsInput.safeParse(bad).success).toBe(false);
    }
  });

  test("C48 a limit of a month is a limit of a month", () => {
    expect(resolveLimits({ timeoutMs: 30 * 86_400_000 }).timeoutMs).toBe(2_592_000_000);
  });

  test("the cooperative deadline is earlier by the smaller of the grace and a tenth", () => {
    expect(cooperativeDeadlineMs({ timeoutMs: 600_000, graceMs: 5000 })).toBe(595_000);
    expect(cooperativeDeadlineMs({ timeoutMs: 2000, graceMs: 5000 })).toBe(1800);
    expect(cooperativeDeadlineMs({ timeoutMs: 2000, graceMs: 0 })).toBe(2000);
  });
});

describe("back-off", () => {
  test("doubles up to its cap", () => {
    const plain = { ...DEFAULT_RETRY.backoff, jitter: 0 };
    expect([1, 2, 3, 7, 30].map((spent) => backoffMs(plain, spent, Math.random))).toEqual([
      1000, 2000, 4000, 60_000, 60_000,
    ]);
  });

  test("A31 is a whole number between 0 and the cap, however many attempts were spent", () => {
    const backoff: fc.Arbitrary<Backoff> = fc.record({
      delayMs: fc.nat(1_000_000),
      factor: fc.double({ min: 1, max: 100, noNaN: true }),
      maxMs: fc.nat(10_000_000),
      jitter: fc.double({ min: 0, max: 1, noNaN: true }),
    });
    fc.assert(
      fc.property(
        backoff,
        fc.integer({ min: 1, max: 5000 }),
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        (rule, spent, random) => {
          const wait = backoffMs(rule, spent, () => random);
          expect(Number.isInteger(wait)).toBe(true);
          expect(wait).toBeGreaterThanOrEqual(0);
          expect(wait).toBeLessThanOrEqual(rule.maxMs);
        },
      ),
    );
    expect(backoffMs({ delayMs: 0, factor: 100, maxMs: 1000, jitter: 0 }, 500, () => 0.5)).toBe(0);
  });

  test("A32 the jitter spreads retries to both sides", () => {
    const rule = { delayMs: 1000, factor: 2, maxMs: 60_000, jitter: 0.2 };
    expect([0, 0.5, 1].map((random) => backoffMs(rule, 1, () => random))).toEqual([800, 1000, 1200]);
  });
});
