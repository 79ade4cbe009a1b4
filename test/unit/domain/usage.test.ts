import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  NO_USAGE,
  UNKNOWN_USAGE,
  USAGE_FIELDS,
  Usage,
  addUsage,
  exceedingUsage,
  readUsage,
  sumUsage,
  totalTokens,
} from "../../../src/domain/usage.ts";
import { usage } from "./arbitraries.ts";

describe("usage sums", () => {
  test("the order does not matter", () => {
    fc.assert(
      fc.property(usage, usage, (a, b) => {
        expect(addUsage(a, b)).toEqual(addUsage(b, a));
      }),
    );
  });

  test("the grouping does not matter", () => {
    fc.assert(
      fc.property(usage, usage, usage, (a, b, c) => {
        expect(addUsage(addUsage(a, b), c)).toEqual(addUsage(a, addUsage(b, c)));
      }),
    );
  });

  test("a sum over a list is the same in any split of it", () => {
    fc.assert(
      fc.property(fc.array(usage, { minLength: 1 }), fc.array(usage, { minLength: 1 }), (left, right) => {
        expect(sumUsage([...left, ...right])).toEqual(addUsage(sumUsage(left), sumUsage(right)));
      }),
    );
  });

  test("known stays where all agree and is partial where they do not; nothing is ever too small", () => {
    fc.assert(
      fc.property(fc.array(usage, { minLength: 1, maxLength: 6 }), (list) => {
        const sum = sumUsage(list);
        const kinds = new Set(list.map((one) => one.known));
        expect(sum.known).toBe(kinds.size === 1 ? list[0]?.known : "partial");
        for (const field of USAGE_FIELDS) {
          const told = list.flatMap((one) => one[field] ?? []);
          const total = told.reduce((before, one) => before + Math.round(one * 1e9), 0) / 1e9;
          expect(sum[field]).toBe(told.length === 0 ? undefined : total);
        }
      }),
    );
  });

  test("the empty sum is reported, and holds no figure that nobody reported", () => {
    expect(sumUsage([])).toEqual({ modelCalls: 0, toolCalls: 0, known: "reported" });
    expect(sumUsage([UNKNOWN_USAGE])).toEqual(UNKNOWN_USAGE);
    expect(addUsage(NO_USAGE, UNKNOWN_USAGE).known).toBe("partial");
  });

  test("adding changes neither side", () => {
    const [a, b] = [
      Object.freeze({ ...UNKNOWN_USAGE, inputTokens: 1 }),
      Object.freeze({ ...NO_USAGE, inputTokens: 2 }),
    ];
    expect(addUsage(a, b).inputTokens).toBe(3);
    expect([a.inputTokens, b.inputTokens]).toEqual([1, 2]);
  });

  test("a round trip through JSON changes nothing", () => {
    fc.assert(
      fc.property(usage, (one) => {
        expect(Usage.parse(JSON.parse(JSON.stringify(one)))).toEqual(one);
      }),
    );
  });
});

describe("U25: money is summed without dust", () => {
  const cost = (costUsd: number): Usage => ({ ...NO_USAGE, costUsd });
  /** As anything outside may report it. */
  const reported = fc.double({ min: 0, max: 1000, noNaN: true });

  test("the sum is the one that a person would write", () => {
    expect(sumUsage(Array.from({ length: 30 }, () => cost(0.001))).costUsd).toBe(0.03);
    expect(addUsage(cost(0.1), cost(0.2)).costUsd).toBe(0.3);
    expect(exceedingUsage(cost(0.3), cost(0.1))?.costUsd).toBe(0.2);
    expect(sumUsage([cost(999_999.999999999), cost(1e-9), cost(1_000_000)]).costUsd).toBe(2_000_000);
  });

  test("what is reported is kept to the billionth of a dollar, and from there on every sum is exact", () => {
    fc.assert(
      fc.property(fc.array(reported, { minLength: 1, maxLength: 40 }), fc.nat(), (costs, at) => {
        const kept = costs.map((costUsd) => readUsage({ costUsd, known: "reported" }));
        const parts = kept.map(({ costUsd = 0 }, i) => {
          expect(Math.abs(costUsd - (costs[i] ?? 0))).toBeLessThanOrEqual(0.6e-9);
          return Math.round(costUsd * 1e9);
        });
        const total = sumUsage(kept);
        expect(total.costUsd).toBe(parts.reduce((sum, part) => sum + part, 0) / 1e9);
        expect(sumUsage(kept.toReversed())).toEqual(total);
        const [one = NO_USAGE] = kept.splice(at % kept.length, 1);
        expect(exceedingUsage(total, one)?.costUsd ?? 0).toBe(sumUsage(kept).costUsd ?? 0);
      }),
    );
  });

  test("a report of more than a million dollars is no figure", () => {
    expect(readUsage({ costUsd: 1_000_000 }).costUsd).toBe(1_000_000);
    expect(readUsage({ costUsd: 1_000_001, inputTokens: 1, known: "reported" })).toEqual({
      ...NO_USAGE,
      inputTokens: 1,
      known: "partial",
    });
  });
});

describe("late usage", () => {
  test("what exceeds the booked usage makes up for it, once", () => {
    fc.assert(
      fc.property(usage, usage, (booked, more) => {
        const later = addUsage(booked, more);
        const extra = exceedingUsage(later, booked);
        const total = extra === undefined ? booked : addUsage(booked, extra);
        for (const field of USAGE_FIELDS) expect(total[field] ?? 0).toBe(later[field] ?? 0);
        expect(exceedingUsage(later, later)).toBeUndefined();
      }),
    );
  });

  test("less than was booked is nothing, never a negative amount", () => {
    expect(exceedingUsage({ ...NO_USAGE, inputTokens: 1 }, { ...NO_USAGE, inputTokens: 2 })).toBeUndefined();
    expect(exceedingUsage({ ...NO_USAGE, outputTokens: 5 }, { ...NO_USAGE, inputTokens: 2 })).toEqual({
      ...NO_USAGE,
      outputTokens: 5,
    });
  });
});

test("total tokens are absent when none is known, and cached ones count", () => {
  expect(totalTokens(UNKNOWN_USAGE)).toBeUndefined();
  expect(
    totalTokens({
      ...NO_USAGE,
      inputTokens: 1,
      cacheReadTokens: 2,
      cacheWriteTokens: 3,
      outputTokens: 4,
      reasoningTokens: 9,
    }),
  ).toBe(10);
});

test("amounts are whole and not negative", () => {
  for (const bad of [
    { inputTokens: -1 },
    { outputTokens: 1.5 },
    { costUsd: -0.1 },
    { costUsd: Number.NaN },
    { known: "no" },
  ]) {
    expect(Usage.safeParse({ ...NO_USAGE, ...bad }).success).toBe(false);
  }
});
