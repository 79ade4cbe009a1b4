import type { z } from "zod";
import { cutText } from "../domain/text.ts";
import { didYouMean } from "./nearest.ts";
import { keysAt, valueAt } from "./schema-path.ts";

/** What is wrong with a value: the field (`limits.timeoutMs`, `input[0].text`) and plain words about it. */
export interface Problem {
  readonly field?: string | undefined;
  readonly message: string;
}

type Issue = z.core.$ZodIssue;
type PathPart = PropertyKey;

/**
 * What a schema found in a value, in words for the person who wrote it. What is not known, a key or a value of a list, is
 * named with the nearest that is: `schema` says which those are, at whatever depth.
 */
export function problemsOf(error: z.ZodError, value: unknown, schema: z.ZodType): Problem[] {
  // Two rules on one number (a whole number, at most n) can say the same thing twice.
  const found = new Map<string, Problem>();
  for (const problem of problemsIn(error.issues, [], { value, schema })) {
    const text = fieldProblem(problem);
    if (found.has(text)) continue;
    if (found.size === PROBLEMS_TOLD) return [...found.values(), { message: "and more is wrong with it" }];
    found.set(text, problem);
  }
  return [...found.values()];
}

/** So many are told of one value: somebody else's may have a million keys that are not known. */
const PROBLEMS_TOLD = 20;

/** A path as people write it: `limits.timeoutMs`, `input[0].text`; undefined for the value itself. */
export function fieldName(path: readonly PathPart[]): string | undefined {
  let name = "";
  for (const part of path) name += typeof part === "number" ? `[${part}]` : `${name === "" ? "" : "."}${String(part)}`;
  return name === "" ? undefined : cutText(name, 100);
}

/** `limits.timeoutMs: must be …`; what is wrong with the value as a whole has no field before it. */
export function fieldProblem({ field, message }: Problem): string {
  return field === undefined ? message : `${field}: ${message}`;
}

interface Place {
  readonly value: unknown;
  readonly schema: z.ZodType;
}

function* problemsIn(issues: readonly Issue[], above: readonly PathPart[], place: Place): Generator<Problem> {
  for (const issue of issues) yield* problemsOfIssue(issue, [...above, ...issue.path], place);
}

function* problemsOfIssue(issue: Issue, path: readonly PathPart[], place: Place): Generator<Problem> {
  const field = fieldName(path);
  if (issue.code === "unrecognized_keys") {
    const known = keysAt(place.schema, path, place.value);
    for (const key of issue.keys) yield { field, message: unknownKey(key, known) };
    return;
  }
  const value = valueAt(place.value, path);
  if (issue.code === "invalid_union") {
    const branch = branchMeant(issue.errors);
    if (branch !== undefined) return yield* problemsIn(branch, path, place);
    if ("options" in issue && issue.options !== undefined) {
      const known = issue.options.map(String);
      return yield { field, message: `must be one of ${known.join(", ")}${nearWords(value, known)}` };
    }
  }
  const absent = path.length > 0 && issue.code !== "custom" && value === undefined;
  yield { field, message: absent ? "is missing" : wordsFor(issue, value) };
}

function nearWords(value: unknown, known: readonly unknown[]): string {
  const texts = known.filter((one) => typeof one === "string");
  return typeof value === "string" ? didYouMean(value, texts) : "";
}

/** `unknown key "inptu" (did you mean "input"?)`. */
function unknownKey(key: string, known: readonly string[]): string {
  return `unknown key "${cutText(key, 60)}"${didYouMean(key, known)}`;
}

/** The branch of a union that the value was meant for: of those whose type fits, the one with the least to mend. */
function branchMeant(branches: readonly (readonly Issue[])[]): readonly Issue[] | undefined {
  return branches
    .filter((issues) => issues.every((issue) => issue.path.length > 0 || issue.code !== "invalid_type"))
    .toSorted((a, b) => a.length - b.length)[0];
}

function wordsFor(issue: Issue, value?: unknown): string {
  switch (issue.code) {
    case "invalid_type":
      return `must be ${typeWords(issue.expected)}`;
    case "invalid_value":
      return `must be ${listWords(issue.values.map(literalText))}${nearWords(value, issue.values)}`;
    case "too_small":
      return sizeWords(issue.origin, "at least", Number(issue.minimum));
    case "too_big":
      return sizeWords(issue.origin, "at most", Number(issue.maximum));
    case "invalid_key":
      return `has a name that cannot be used: ${issue.issues.map((inner) => wordsFor(inner)).join(", ")}`;
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

function literalText(value: unknown): string {
  return JSON.stringify(value) ?? String(value);
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
