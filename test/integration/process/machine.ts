import { setTimeout as pause } from "node:timers/promises";
import { matchesMark, type MarkPattern } from "../../../src/process/mark.ts";
import { machineTable } from "../../../src/process/process-table.ts";

export { isProcessAlive as isAlive } from "../../agents.ts";

/** The living processes of this machine that bear such a mark. */
export function alive(pattern: MarkPattern): number[] {
  return machineTable
    .list()
    .filter((row) => !row.dead)
    .map((row) => row.pid)
    .filter((pid) => machineTable.marksOf(pid).some((mark) => matchesMark(pattern, mark)));
}

/** Waits for a condition; how long is only a bound for when it never comes. */
export async function until(what: string, holds: () => boolean, limitMs = 15_000): Promise<void> {
  const end = performance.now() + limitMs;
  while (!holds()) {
    if (performance.now() > end) throw new Error(`never came: ${what}`);
    await pause(5);
  }
}
