import { z } from "zod";
import { wellFormed } from "./text.ts";

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

/**
 * Any value as JSON, never throwing: BigInt becomes its digits, NaN and infinities their names,
 * a Date its ISO text, Map and Set plain lists, functions and symbols a short note, a cycle
 * `[cycle]`, an undefined field nothing; lone surrogates and NUL are replaced. An agent's output
 * that JSON cannot carry must never cost a second run.
 */
export function toJson(value: unknown): Json {
  return convert(value, [], 0);
}

function convert(value: unknown, above: readonly object[], depth: number): Json {
  switch (typeof value) {
    case "string":
      return cleanText(value);
    case "number":
      return Number.isFinite(value) ? value : String(value);
    case "boolean":
      return value;
    case "bigint":
      return value.toString();
    case "undefined":
      return null;
    case "function":
      return `[function ${value.name}]`;
    case "symbol":
      return `[${value.toString()}]`;
    case "object":
      return value === null ? null : convertObject(value, above, depth);
    default:
      return null;
  }
}

function convertObject(value: object, above: readonly object[], depth: number): Json {
  if (above.includes(value)) return "[cycle]";
  if (depth >= MAX_DEPTH) return "[too deep]";
  const path = [...above, value];
  const inner = (item: unknown): Json => convert(item, path, depth + 1);
  try {
    if (Array.isArray(value)) return value.map(inner);
    if (value instanceof Date) return Number.isNaN(value.getTime()) ? "Invalid Date" : value.toISOString();
    if (value instanceof Error) return { name: value.name, message: cleanText(value.message) };
    if (value instanceof Map) return [...value].map(([key, item]) => [inner(key), inner(item)]);
    if (value instanceof Set) return [...value].map(inner);
    if (ArrayBuffer.isView(value)) return Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString("base64");
    if ("toJSON" in value && typeof value.toJSON === "function") return inner((value.toJSON as () => unknown)());
    // `fromEntries` defines fields instead of assigning them, so that "__proto__" stays an ordinary key.
    const kept = Object.entries(value).filter(([, item]) => item !== undefined);
    return Object.fromEntries(kept.map(([key, item]) => [cleanText(key), inner(item)]));
  } catch {
    return "[unreadable]";
  }
}

function cleanText(text: string): string {
  return wellFormed(text).replaceAll("\u0000", "\ufffd");
}
