import { RE2JS } from "re2js";
import type { Check, CheckOutcome, CheckType, Score } from "../domain/check.ts";
import { messageOf } from "../domain/error.ts";
import type { Json } from "../domain/json.ts";
import { cutText, withoutCutNote } from "../domain/text.ts";
import type { Truncated } from "../domain/turn-record.ts";
import { outcomeOf } from "../domain/turn-result.ts";
import type { TurnStatus } from "../domain/turn-result.ts";
import { contains } from "./contains.ts";
import { lastNumber, sameNumber } from "./number-text.ts";

/** What a score needs of a request. */
export interface Expectation {
  readonly expect?: readonly Check[] | undefined;
  readonly target?: Json | undefined;
}

/** What a score needs of a settled turn. */
export interface Settled {
  readonly status: TurnStatus;
  readonly output: string;
  readonly truncated?: Truncated | undefined;
}

const WHOLE_NEEDED: ReadonlySet<CheckType> = new Set(["equals", "number"]);
const CUT = "the output was cut at its limit";

/**
 * What a turn's checks gave. A failed turn misses every check, so that an error counts as a miss. Of an output that was
 * cut `equals` and `number` miss, since its end is not there, the others look at what was kept; all say so.
 * Null, not measured: a turn without checks, and one that was cancelled or that expired.
 */
export function scoreOf(request: Expectation, settled: Settled): Score | null {
  const checks = request.expect ?? [];
  const outcome = outcomeOf(settled.status);
  if (checks.length === 0 || outcome === "cancelled" || outcome === "expired") return null;
  const results = checks.map((check): CheckOutcome =>
    outcome === "failed"
      ? { type: check.type, passed: false, note: "the turn failed" }
      : checkOutput(check, valueOf(check, request.target), settled),
  );
  const passed = results.filter((result) => result.passed).length;
  return { value: passed / results.length, passed: passed === results.length, checks: results };
}

/** Why a check cannot be run, in plain words; undefined when it can. A list is one value of several, of which any may fit. */
export function checkProblem(check: Check, target: Json | undefined): string | undefined {
  const value = valueOf(check, target);
  if (value === undefined) return `the check "${check.type}" has no value, and there is no target`;
  const values = Array.isArray(value) ? value : [value];
  if (values.length === 0) return `the check "${check.type}" has an empty list of values`;
  for (const one of values) {
    const problem = valueProblem(check.type, one);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

function valueOf(check: Check, target: Json | undefined): Json | undefined {
  return check.value === undefined ? target : check.value;
}

function valueProblem(type: CheckType, value: Json): string | undefined {
  const text = textOfValue(value);
  if (text === undefined) return `the check "${type}" needs text, a number, true or false, or a list of these`;
  switch (type) {
    case "equals":
      return undefined;
    case "includes":
      return text === "" ? 'the check "includes" has an empty value, which is in every output' : undefined;
    case "regex":
      return patternProblem(text);
    case "number":
      return lastNumber(text) === undefined ? 'the check "number" has a value without a number in it' : undefined;
  }
}

function textOfValue(value: Json): string | undefined {
  return typeof value === "object" ? undefined : String(value);
}

function checkOutput(check: Check, value: Json | undefined, { output, truncated = [] }: Settled): CheckOutcome {
  if (!truncated.includes("output")) return runCheck(check, value, output);
  if (WHOLE_NEEDED.has(check.type)) return { type: check.type, passed: false, note: CUT };
  const { note, ...outcome } = runCheck(check, value, withoutCutNote(output));
  return { ...outcome, note: note === undefined ? CUT : `${CUT}; ${note}` };
}

function runCheck(check: Check, value: Json | undefined, output: string): CheckOutcome {
  const problem = checkProblem(check, value);
  if (problem !== undefined) return { type: check.type, passed: false, note: problem };
  const values = (Array.isArray(value) ? value : [value]).map(String);
  switch (check.type) {
    case "equals": {
      const said = output.trim();
      return { type: "equals", passed: values.some((one) => one.trim() === said) };
    }
    case "includes":
      return { type: "includes", passed: values.some((one) => contains(output, one)) };
    case "regex":
      return searchAny(values, output);
    case "number":
      return compareNumbers(values, output);
  }
}

function compareNumbers(values: readonly string[], output: string): CheckOutcome {
  const said = lastNumber(output);
  if (said === undefined) return { type: "number", passed: false, note: "the output has no number" };
  const wanted = values.flatMap((value) => lastNumber(value) ?? []);
  const passed = wanted.some((one) => sameNumber(one, said));
  return passed
    ? { type: "number", passed }
    : { type: "number", passed, note: cutText(`the output's last number is ${said}`, 200) };
}

/** Longest pattern, in characters, and largest compiled one, in instructions. */
const PATTERN_MAX = 4000;
const PROGRAM_MAX = 10_000;

/**
 * The library's time is linear in the text, but times the size of the pattern: about 10 ns for a
 * character and an instruction at the worst. This bounds the product, and so the time that a check
 * can block the process, to about half a second.
 */
const SEARCH_BUDGET = 50_000_000;

const compiled = new Map<string, RE2JS>();
const COMPILED_MAX = 100;

function patternOf(source: string): RE2JS {
  const known = compiled.get(source);
  if (known !== undefined) return known;
  const pattern = RE2JS.compile(source);
  if (compiled.size >= COMPILED_MAX) compiled.clear();
  compiled.set(source, pattern);
  return pattern;
}

function patternProblem(source: string): string | undefined {
  if (source.length > PATTERN_MAX) return `the pattern is longer than ${PATTERN_MAX} characters`;
  try {
    return patternOf(source).programSize() > PROGRAM_MAX
      ? "the pattern is too large; use smaller repeat counts"
      : undefined;
  } catch (error) {
    return `the pattern cannot be used (RE2 syntax, no look-around, no back-references): ${cutText(messageOf(error), 200)}`;
  }
}

function searchAny(patterns: readonly string[], output: string): CheckOutcome {
  let shortest = output.length;
  const passed = patterns.some((source) => {
    const pattern = patternOf(source);
    const most = Math.floor(SEARCH_BUDGET / Math.max(1, pattern.programSize()));
    if (output.length <= most) return pattern.test(output);
    shortest = Math.min(shortest, most);
    // A search that starts inside the whole text, so that ^ and \b mean there what they mean in it.
    return pattern.matcher(output).find(output.length - most);
  });
  if (shortest === output.length) return { type: "regex", passed };
  return { type: "regex", passed, note: `only the last ${shortest} of ${output.length} characters were searched` };
}
