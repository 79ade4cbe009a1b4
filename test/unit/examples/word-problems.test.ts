import { readFileSync } from "node:fs";
import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import { lastNumber } from "../../../src/batch/number-text.ts";

interface Problem {
  readonly id: string;
  readonly input: string;
  readonly target: string;
  readonly metadata: { readonly work: string };
}

const file = readFileSync(new URL("../../../examples/word-problems/problems.jsonl", import.meta.url), "utf8");
const problems = file
  .trimEnd()
  .split("\n")
  .map((line) => JSON.parse(line) as Problem);

/** Works out a sum of numbers, + - * / and parentheses, ceil, floor and sqrt. */
function workedOut(work: string): number {
  expect(work).toMatch(/^(?:ceil|floor|sqrt|[\d.+\-*/() ])+$/);
  const { ceil, floor, sqrt } = Math;
  return Number(runInNewContext(work, { ceil, floor, sqrt }));
}

describe("the word problems of the example", () => {
  it("are at least 60, each with an id and a text of its own", () => {
    expect(problems.length).toBeGreaterThanOrEqual(60);
    expect(new Set(problems.map(({ id }) => id)).size).toBe(problems.length);
    expect(new Set(problems.map(({ input }) => input)).size).toBe(problems.length);
  });

  it.each(problems.map((problem) => [problem.id, problem] as const))(
    "%s has the answer that its sum gives",
    (_, { input, target, metadata }) => {
      expect(Number(target)).toBeCloseTo(workedOut(metadata.work), 9);
      expect(Number(lastNumber(target))).toBe(Number(target));
      expect(input).not.toContain(metadata.work);
    },
  );
});
