import { createHash } from "node:crypto";
import type { StoredRequest, TurnRequest } from "../domain/turn-request.ts";

/** What makes two requests the same turn: what was asked, not the limits it was asked under. */
const CONTENT = ["agent", "input", "session", "target", "expect", "options"] as const;

/** A hash of a request's content as given, without defaults of the configuration. */
export function contentHash(request: TurnRequest | StoredRequest): string {
  const content = CONTENT.map((field) => canonical(request[field]));
  return createHash("sha256").update(JSON.stringify(content)).digest("base64url").slice(0, 22);
}

/** The content fields in which two requests differ: names only, for prompts do not belong in errors. */
export function contentDifference(a: TurnRequest | StoredRequest, b: TurnRequest | StoredRequest): string[] {
  return CONTENT.filter((field) => JSON.stringify(canonical(a[field])) !== JSON.stringify(canonical(b[field])));
}

/** The value with the keys of every object in order, so that their order does not count. */
function canonical(value: unknown): unknown {
  if (Array.isArray(value)) return ["[", ...value.map(canonical)];
  if (typeof value !== "object" || value === null) return value ?? null;
  const entries = Object.entries(value).filter(([, inner]) => inner !== undefined);
  // The first entry tells an object from a list of pairs.
  return ["{", ...entries.toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([key, inner]) => [key, canonical(inner)])];
}
