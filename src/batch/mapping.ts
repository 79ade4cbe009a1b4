import { TurnqError } from "../domain/error.ts";
import { LineRequest } from "../domain/turn-request.ts";
import { didYouMean } from "../parse/nearest.ts";
import type { Problem } from "../parse/problem.ts";

/** Which column of a line each field of a request comes from; `meta.question` is a nested one. */
export type Mapping = ReadonlyMap<string, string>;

/** The fields that a column can be mapped to: all of a request but its place in the batch. */
export const MAPPABLE_KEYS: readonly string[] = Object.keys(LineRequest.shape);

/** Reads `input=question,target=answer,id=task_id`. Throws {@link TurnqError} `invalid_request`. */
export function parseMapping(text: string): Mapping {
  const mapping = new Map<string, string>();
  for (const entry of text.split(",")) {
    const [field = "", column = "", ...more] = entry.split("=").map((part) => part.trim());
    if (field === "" || column === "" || more.length > 0) {
      throw refused(`"${entry}" is not FIELD=COLUMN`, "Write for instance input=question,target=answer.");
    }
    if (mapping.has(field)) throw refused(`the field "${field}" is mapped twice`);
    mapping.set(field, column);
  }
  return checkedMapping(mapping);
}

/** A mapping whose fields are all fields of a request; else throws {@link TurnqError} `invalid_request`. */
export function checkedMapping(mapping: Mapping): Mapping {
  for (const field of mapping.keys()) {
    if (MAPPABLE_KEYS.includes(field)) continue;
    const hint = didYouMean(field, MAPPABLE_KEYS);
    throw refused(`"${field}" is not a field of a turn${hint}`, `The fields are ${MAPPABLE_KEYS.join(", ")}.`);
  }
  return mapping;
}

function refused(message: string, hint?: string): TurnqError {
  return new TurnqError("invalid_request", message, { where: "map", hint });
}

/**
 * The request that a line holds under a mapping. Columns that are not mapped go into `metadata`;
 * `input` is the column of that name unless it is mapped. A mapped column that the line does not
 * have is a problem; null there means that the line does not say.
 */
export function applyMapping(
  line: Readonly<Record<string, unknown>>,
  mapping: Mapping,
): { readonly request: Readonly<Record<string, unknown>>; readonly problems: readonly Problem[] } {
  const whole: Mapping =
    mapping.has("input") || !Object.hasOwn(line, "input") ? mapping : new Map([...mapping, ["input", "input"]]);
  const fields: [string, unknown][] = [];
  const problems: Problem[] = [];
  for (const [field, column] of whole) {
    const found = columnOf(line, column);
    if (found === undefined) {
      problems.push({ field, message: `the line has no column "${column}"${didYouMean(column, Object.keys(line))}` });
    } else if (found !== null) fields.push([field, found]);
  }
  if (!whole.has("input")) problems.push({ field: "input", message: "is missing; map a column to it (input=COLUMN)" });
  const used = new Set(whole.values());
  const rest = Object.entries(line).filter(([column]) => !used.has(column));
  const request = Object.fromEntries(fields);
  return { request: { ...request, ...withMetadata(request.metadata, rest) }, problems };
}

function withMetadata(mapped: unknown, rest: readonly (readonly [string, unknown])[]): { metadata?: unknown } {
  if (mapped === undefined) return rest.length === 0 ? {} : { metadata: Object.fromEntries(rest) };
  // Something other than an object is left as it is, for the check of the request to refuse.
  if (typeof mapped !== "object" || mapped === null || Array.isArray(mapped)) return {};
  return { metadata: Object.fromEntries([...rest, ...Object.entries(mapped)]) };
}

/** A column by its whole name, else by its path; undefined when there is none. */
function columnOf(line: Readonly<Record<string, unknown>>, column: string): unknown {
  if (Object.hasOwn(line, column)) return line[column];
  let found: unknown = line;
  for (const part of column.split(".")) {
    if (typeof found !== "object" || found === null || !Object.hasOwn(found, part)) return undefined;
    found = Reflect.get(found, part);
  }
  return found;
}
