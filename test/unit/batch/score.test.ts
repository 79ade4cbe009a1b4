import { describe, expect, test } from "vitest";
import { contains } from "../../../src/batch/contains.ts";
import { checkProblem, scoreOf } from "../../../src/batch/score.ts";
import type { Check, CheckType } from "../../../src/domain/check.ts";
import { Score } from "../../../src/domain/check.ts";
import { withCutNote } from "../../../src/domain/text.ts";
import type { Json } from "../../../src/domain/json.ts";
import { TurnStatus, outcomeOf } from "../../../src/domain/turn-result.ts";

const settled = (output: string, status: TurnStatus = "completed") => ({ output, status });
const passes = (type: CheckType, target: Json, output: string) =>
  scoreOf({ expect: [{ type }], target }, settled(output))?.passed;

describe("checks", () => {
  test("equals: text without what is blank at both ends; numbers and booleans by their text; any of a list", () => {
    expect(passes("equals", "18", " 18\n")).toBe(true);
    expect(passes("equals", " a b ", "a b")).toBe(true);
    expect(passes("equals", 18, "18")).toBe(true);
    expect(passes("equals", true, "true")).toBe(true);
    expect(passes("equals", ["a", 2], "2")).toBe(true);
    expect(passes("equals", "", "  ")).toBe(true);
    expect(passes("equals", "a", "A")).toBe(false);
    expect(passes("equals", "18", "18.0")).toBe(false);
  });

  test("includes: any of the values is in the output", () => {
    expect(passes("includes", "needle", "a needle here")).toBe(true);
    expect(passes("includes", ["x", "needle"], "a needle here")).toBe(true);
    expect(passes("includes", "needle", "")).toBe(false);
    expect(passes("includes", 5, "1.5")).toBe(true);
  });

  test("regex: RE2 syntax, anywhere in the output", () => {
    expect(passes("regex", "(?i)answer:\\s*\\d+", "The ANSWER: 5")).toBe(true);
    expect(passes("regex", "^5$", "5")).toBe(true);
    expect(passes("regex", "^5$", "15")).toBe(false);
    expect(passes("regex", ["x", "\\p{Greek}"], "α")).toBe(true);
  });

  test("number: the last number of the output against the target's", () => {
    expect(passes("number", "She makes 9 * 2 = $<<9*2=18>>18.\n#### 18", "So it is $18.00.")).toBe(true);
    expect(passes("number", 1234, "in all 1,234 pieces")).toBe(true);
    expect(passes("number", [1, 2], "2")).toBe(true);
    expect(passes("number", 18, "18 of 20")).toBe(false);
    expect(scoreOf({ expect: [{ type: "number" }], target: 18 }, settled("none"))?.checks).toEqual([
      { type: "number", passed: false, note: "the output has no number" },
    ]);
  });
});

describe("U22: the checks of an output that was cut at its limit", () => {
  const cut = (types: readonly CheckType[], target: Json, kept: string) =>
    scoreOf(
      { expect: types.map((type) => ({ type })), target },
      { output: withCutNote(kept), status: "completed", truncated: ["output", "transcript"] },
    );
  const note = "the output was cut at its limit";

  test("equals and number miss, since the end is not there; includes and regex see what was kept; all say so", () => {
    expect(cut(["equals", "number", "includes", "regex"], "5", "5")?.checks).toEqual([
      { type: "equals", passed: false, note },
      { type: "number", passed: false, note },
      { type: "includes", passed: true, note },
      { type: "regex", passed: true, note },
    ]);
  });

  test("the note of the cut is no part of the output", () => {
    expect(cut(["includes"], "limit", "five")?.passed).toBe(false);
    expect(cut(["regex"], "e$", "five")?.passed).toBe(true);
  });

  test("where only the transcript was cut the output is whole", () => {
    const score = scoreOf(
      { expect: [{ type: "number" }], target: 5 },
      { output: "5", status: "completed", truncated: ["transcript"] },
    );
    expect(score?.checks).toEqual([{ type: "number", passed: true }]);
  });
});

describe("scores", () => {
  const two: Check[] = [{ type: "equals" }, { type: "includes", value: "x" }];

  test("the share of the checks that passed; passed means all", () => {
    expect(scoreOf({ expect: two, target: "a" }, settled("a"))).toMatchObject({ value: 0.5, passed: false });
    expect(scoreOf({ expect: two, target: "axa" }, settled("axa"))).toMatchObject({ value: 1, passed: true });
    expect(Score.safeParse(scoreOf({ expect: two, target: "b" }, settled("a"))).success).toBe(true);
  });

  test("null is not measured: no checks, cancelled or expired", () => {
    expect(scoreOf({ target: "a" }, settled("a"))).toBeNull();
    expect(scoreOf({ expect: [], target: "a" }, settled("a"))).toBeNull();
    expect(scoreOf({ expect: two, target: "a" }, settled("a", "cancelled"))).toBeNull();
    expect(scoreOf({ expect: two, target: "a" }, settled("a", "expired"))).toBeNull();
  });

  test("a failed turn is a miss, and one that reached a limit is scored by what it said", () => {
    for (const status of TurnStatus.options.filter((one) => outcomeOf(one) === "failed")) {
      expect(scoreOf({ expect: two, target: "axa" }, settled("axa", status))).toEqual({
        value: 0,
        passed: false,
        checks: two.map(({ type }) => ({ type, passed: false, note: "the turn failed" })),
      });
    }
    expect(scoreOf({ expect: two, target: "axa" }, settled("axa", "limit_reached"))?.passed).toBe(true);
  });

  test("a check without a value, which submit refuses, misses and says why", () => {
    expect(scoreOf({ expect: [{ type: "equals" }] }, settled("a"))?.checks[0]?.note).toMatch(/has no value/);
  });
});

describe("checks that cannot be run", () => {
  test.each([
    [{ type: "equals" }, undefined, /no value, and there is no target/],
    [{ type: "equals" }, [], /empty list/],
    [{ type: "equals", value: { a: 1 } }, "x", /needs text/],
    [{ type: "equals", value: null }, "x", /needs text/],
    [{ type: "includes" }, "", /in every output/],
    [{ type: "regex" }, "(a", /cannot be used/],
    [{ type: "regex" }, "(a)\\1", /no back-references/],
    [{ type: "regex" }, "(?=a)", /no look-around/],
    [{ type: "regex", value: ["a", "["] }, undefined, /cannot be used/],
    [{ type: "number" }, "none", /without a number/],
    [{ type: "number" }, true, /without a number/],
  ] as const)("%j %j", (check, target, words) => {
    expect(checkProblem(check as Check, target as Json | undefined)).toMatch(words);
  });

  test("a pattern that is too long or too large", () => {
    expect(checkProblem({ type: "regex" }, "a".repeat(5000))).toMatch(/longer than 4000/);
    expect(checkProblem({ type: "regex" }, "x{1000}".repeat(12))).toMatch(/too large/);
  });

  test("a value of the check's own stands before the target", () => {
    expect(checkProblem({ type: "number", value: "5" }, "none")).toBeUndefined();
    expect(scoreOf({ expect: [{ type: "equals", value: "b" }], target: "a" }, settled("b"))?.passed).toBe(true);
  });
});

describe("hostile outputs", () => {
  const big = `c${"ab".repeat(4 * 1024 * 1024)}`;

  test("a pattern that makes others hang ends, and says what it searched", () => {
    const score = scoreOf({ expect: [{ type: "regex", value: "(.{0,300}a){3}c" }] }, settled(big));
    expect(score?.checks[0]).toMatchObject({
      passed: false,
      note: expect.stringMatching(/^only the last \d+ of 8388609 characters/) as string,
    });
    for (const pattern of ["(a+)+$", "(a|b)*a(a|b){20}c", "^(([a-z])+.)+[A-Z]([a-z])+$"]) {
      expect(scoreOf({ expect: [{ type: "regex", value: pattern }] }, settled(big))?.passed).toBe(false);
    }
  });

  test("the end of a long output is searched as the end of the whole", () => {
    const large = "(?:.{0,300}a){3}"; // so large that only a part is searched
    expect(passes("regex", `^(?:ba${large})`, `c${"ba".repeat(1_000_000)}`)).toBe(false);
    expect(passes("regex", `${large}end$`, `${"ba".repeat(1_000_000)}end`)).toBe(true);
  });

  test("includes takes time that is linear in the text", () => {
    const text = "a".repeat(4 * 1024 * 1024);
    const part = `${"a".repeat(50_000)}b${"a".repeat(50_000)}`;
    expect(contains(text, part)).toBe(false);
    expect(contains(`${text}b${text}`, part)).toBe(true);
    expect(contains("ab", "abc")).toBe(false);
    expect(contains(`${"ab".repeat(100_000)}c`, `${"ab".repeat(20_000)}c`)).toBe(true);
    expect(contains("ab".repeat(100_000), `${"ab".repeat(20_000)}c`)).toBe(false);
  });

  test("8 MB of anything against every check", () => {
    for (const type of ["equals", "includes", "regex", "number"] as const) {
      expect(scoreOf({ expect: [{ type }], target: "5$" }, settled(big))?.passed).toBe(false);
    }
  });
});
