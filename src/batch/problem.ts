import type { z } from "zod";
import { cutText } from "../domain/text.ts";
import { didYouMean } from "./nearest.ts";

/** What is wrong with a value: the field (`limits.timeoutMs`, `input[0].text`) and plain words about it. */
export interface Problem {
  readonly field?: string | undefined;
  readonly message: string;
}

/** A problem and the input line it was found on. */
export interface LineProblem extends Problem {
  readonly line: number;
}

/** `line 12, field limits.timeoutMs: must be …`. */
export function problemText(problem: LineProblem, unit = "line"): string {
  return `${unit} ${problem.line}${problem.field === undefined ? "" : `, field ${problem.field}`}: ${problem.message}`;
}

type Issue = z.core.$ZodIssue;
type PathPart = PropertyKey;

/** What zod found in `value`, in words for the person who wrote it. `keys` are the names that are known at the top. */
export function problemsOf(error: z.ZodError, value: unknown, keys: readonly string[]): Problem[] {
  const found = error.issues.flatMap((issue) => problemsOfIssue(issue, [], { value, keys }));
  // Two rules on one number (a whole number, at most n) can say the same thing twice.
  return found.filter((one, index) => found.findIndex((other) => same(one, other)) === index);
}

function same(a: Problem, b: Problem): boolean {
  return a.field === b.field && a.message === b.message;
}

/** A path as people write it: `limits.timeoutMs`, `input[0].text`; undefined for the value itself. */
export function fieldName(path: readonly PathPart[]): string | undefined {
  let name = "";
  for (const part of path) name += typeof part === "number" ? `[${part}]` : `${name === "" ? "" : "."}${String(part)}`;
  return name === "" ? undefined : cutText(name, 100);
}

interface Place {
  readonly value: unknown;
  readonly keys: readonly string[];
}

function problemsOfIssue(issue: Issue, above: readonly PathPart[], place: Place): Problem[] {
  const path = [...above, ...issue.path];
  if (issue.code === "unrecognized_keys") {
    const known = path.length === 0 ? place.keys : [];
    return issue.keys.map((key) => ({ field: fieldName(path), message: unknownKey(key, known) }));
  }
  if (issue.code === "invalid_union") {
    const branch = branchMeant(issue.errors);
    if (branch !== undefined) return branch.flatMap((inner) => problemsOfIssue(inner, path, place));
  }
  const absent = path.length > 0 && issue.code !== "custom" && valueAt(place.value, path) === undefined;
  return [{ field: fieldName(path), message: absent ? "is missing" : wordsFor(issue) }];
}

function valueAt(value: unknown, path: readonly PathPart[]): unknown {
  let found = value;
  for (const part of path) {
    if (typeof found !== "object" || found === null || !Object.hasOwn(found, part)) return undefined;
    found = Reflect.get(found, part);
  }
  return found;
}

/** `unknown key "inptu" (did you mean "input"?)`. */
export function unknownKey(key: string, known: readonly string[]): string {
  return `unknown key "${cutText(key, 60)}"${didYouMean(key, known)}`;
}

/** The branch of a union that the value was meant for: one whose type fits and whose content does not. */
function branchMeant(branches: readonly (readonly Issue[])[]): readonly Issue[] | undefined {
  return branches.find((issues) => issues.every((issue) => issue.path.length > 0 || issue.code !== "invalid_type"));
}

function wordsFor(issue: Issue): string {
  switch (issue.code) {
    case "invalid_type":
      return `must be ${typeWords(issue.expected)}`;
    case "invalid_value":
      return `must be ${listWords(issue.values.map((value) => JSON.stringify(value) ?? String(value)))}`;
    case "too_small":
      return sizeWords(issue.origin, "at least", Number(issue.minimum));
    case "too_big":
      return sizeWords(issue.origin, "at most", Number(issue.maximum));
    case "invalid_key":
      return `has a name that cannot be used: ${issue.issues.map(wordsFor).join(", ")}`;
    case "invalid_union":
      return unionWords(issue.errors);
    case "invalid_format":
    case "invalid_element":
    case "not_multiple_of":
    case "unrecognized_keys":
    case "custom":
      return issue.message;
    default:
      return "is not valid";
  }
}

function unionWords(branches: readonly (readonly Issue[])[]): string {
  const types = branches.flat().flatMap((issue) => (issue.code === "invalid_type" ? [typeWords(issue.expected)] : []));
  return types.length === 0 ? "is not valid" : `must be ${listWords([...new Set(types)])}`;
}

function typeWords(type: string): string {
  switch (type) {
    case "string":
      return "text";
    case "int":
      return "a whole number";
    case "number":
      return "a number";
    case "boolean":
      return "true or false";
    case "array":
      return "a list";
    case "object":
    case "record":
      return "an object";
    default:
      return `a value of type ${type}`;
  }
}

function sizeWords(origin: string, bound: "at least" | "at most", size: number): string {
  if (origin === "string") return `must have ${bound} ${size} characters`;
  if (origin === "array") return `must have ${bound} ${size} ${size === 1 ? "entry" : "entries"}`;
  return `must be ${bound} ${size}`;
}

function listWords(words: readonly string[]): string {
  if (words.length < 2) return words.join("");
  return `${words.slice(0, -1).join(", ")} or ${words.at(-1) ?? ""}`;
}
