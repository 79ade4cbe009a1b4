import type { Problem } from "../parse/problem.ts";

/** A problem and the input line it was found on. */
export interface LineProblem extends Problem {
  readonly line: number;
}

/** `line 12, field limits.timeoutMs: must be …`. */
export function problemText(problem: LineProblem, unit = "line"): string {
  return `${unit} ${problem.line}${problem.field === undefined ? "" : `, field ${problem.field}`}: ${problem.message}`;
}
