import { createHash } from "node:crypto";

/** A number from 0 to below 1 that depends on nothing but these parts: the same parts, the same number. */
export function chance(...parts: readonly (string | number)[]): number {
  const digest = createHash("sha256").update(JSON.stringify(parts)).digest();
  return digest.readUIntBE(0, 6) / 2 ** 48;
}
