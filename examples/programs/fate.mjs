import { createHash } from "node:crypto";

/** The share of its attempts in which the shaky agent hangs, and in which it crashes. */
export const HANG_SHARE = 0.05;
export const CRASH_SHARE = 0.2;

/**
 * What becomes of one attempt of the shaky agent: "fine", "hang", "kill" (a SIGKILL to itself) or "exit" (code 1).
 *
 * A turn's id is BATCH:SAMPLE:AGENT:EPOCH. The batch is left out, since it is new for every run: so every run of the
 * example meets the same crashes at the same places.
 */
export function fateOf(seed, turn, attempt) {
  const cell = turn.slice(turn.indexOf(":") + 1);
  const digest = createHash("sha256")
    .update(JSON.stringify([String(seed), cell, attempt]))
    .digest();
  const draw = digest.readUInt32BE(0) / 2 ** 32;
  if (draw < HANG_SHARE) return "hang";
  if (draw < HANG_SHARE + CRASH_SHARE) return digest[4] % 2 === 0 ? "kill" : "exit";
  return "fine";
}
