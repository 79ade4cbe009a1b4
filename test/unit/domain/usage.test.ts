import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  NO_USAGE,
  UNKNOWN_USAGE,
  USAGE_FIELDS,
  Usage,
  addUsage,
  exceedingUsage,
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
          expect(sum[field]).toBe(told.length === 0 ? undefined : told.reduce((total, one) => total + one, 0));
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
