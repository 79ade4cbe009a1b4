import { z } from "zod";
import { cleanText } from "./text.ts";

export type Json = string | number | boolean | null | Json[] | { [key: string]: Json };

const MAX_DEPTH = 100;

function isJson(value: unknown, depth: number): value is Json {
  if (value === null || typeof value === "string" || typeof value === "boolean") return true;
  if (typeof value === "number") return Number.isFinite(value);
  if (typeof value !== "object" || depth > MAX_DEPTH) return false;
  if (Array.isArray(value)) return value.every((item) => isJson(item, depth + 1));
  return isPlain(value) && Object.values(value).every((item) => isJson(item, depth + 1));
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

/**
 * Anything JSON can carry, at most 100 levels deep. A check only: nothing is copied, so that a key
 * such as `__proto__` stays the plain field it is in the text.
 */
export const Json = z.custom<Json>((value) => isJson(value, 0), "must be a value that JSON can carry");

/** An object of JSON values. */
export const JsonObject = z.custom<{ [key: string]: Json }>(
  (value) => typeof value === "object" && value !== null && !Array.isArray(value) && isJson(value, 0),
  "must be an object of values that JSON can carry",
);
export type JsonObject = z.infer<typeof JsonObject>;

/** What {@link toJson} writes at the most: values that refer to one another many times over have no end as text. */
const MAX_VALUES = 1_000_000;

/**
 * Any value as JSON, never throwing: BigInt becomes its digits, NaN and infinities their names,
 * a Date its ISO text, Map and Set plain lists, functions and symbols a short note, a cycle
 * `[cycle]`, an undefined field nothing; lone surrogates and NUL are replaced; what is over 100
 * levels deep or beyond a million values is cut. An agent's output that JSON cannot carry must
 * never cost a second run.
 */
export function toJson(value: unknown): Json {
  return convert(value, { above: [], budget: { left: MAX_VALUES } });
}

/** Any value as a text that can be stored: what is no text as its JSON, nothing as `""`. Never throws. */
export function asText(value: unknown): string {
  if (value === undefined) return "";
  const json = toJson(value);
  return typeof json === "string" ? json : JSON.stringify(json);
}

interface Place {
  readonly above: readonly object[];
  readonly budget: { left: number };
}

function convert(value: unknown, place: Place): Json {
  if (place.budget.left <= 0) return "[too large]";
  place.budget.left -= 1;
  switch (typeof value) {
    case "string":
      return cleanText(value);
    case "number":
      if (value === 0) return 0; // JSON has no -0
      return Number.isFinite(value) ? value : String(value);
    case "boolean":
      return value;
    case "bigint":
      return value.toString();
    case "undefined":
      return null;
    case "function":
      return `[function ${nameOf(value)}]`;
    case "symbol":
      return cleanText(`[${value.toString()}]`);
    case "object":
      return value === null ? null : convertObject(value, place);
    default:
      return null;
  }
}

function nameOf(value: { readonly name: unknown }): string {
  try {
    return typeof value.name === "string" ? cleanText(value.name) : "";
  } catch {
    return "";
  }
}

function convertObject(value: object, place: Place): Json {
  if (place.above.includes(value)) return "[cycle]";
  if (place.above.length >= MAX_DEPTH) return "[too deep]";
  const inside: Place = { above: [...place.above, value], budget: place.budget };
  const inner = (item: unknown): Json => convert(item, inside);
  try {
    if (Array.isArray(value)) return convertList(value, inside);
    if (value instanceof Date) return Number.isNaN(value.getTime()) ? "Invalid Date" : value.toISOString();
    if (value instanceof Error) return { name: inner(value.name), message: inner(value.message) };
    if (value instanceof Map) return [...value].map(([key, item]) => [inner(key), inner(item)]);
    if (value instanceof Set) return [...value].map(inner);
    if (ArrayBuffer.isView(value))
      return Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString("base64");
    if ("toJSON" in value && typeof value.toJSON === "function") return inner((value.toJSON as () => unknown)());
    // `fromEntries` defines fields instead of assigning them, so that "__proto__" stays an ordinary key.
    const kept = Object.entries(value).filter(([, item]) => item !== undefined);
    return Object.fromEntries(kept.map(([key, item]) => [cleanText(key), inner(item)]));
  } catch {
    return "[unreadable]";
  }
}

/** Item by item, since `map` keeps holes and walks all of a list that claims four billion items. */
function convertList(list: readonly unknown[], place: Place): Json[] {
  const items: Json[] = [];
  for (let index = 0; index < list.length; index += 1) {
    if (place.budget.left <= 0) return [...items, "[too large]"];
    items.push(convert(list[index], place));
  }
  return items;
}
