import { killTree } from "./kill-tree.ts";
import { matchesMark, parseMark, type MarkPattern } from "./mark.ts";
import { workerLiveness } from "./worker-id.ts";

/** Kills every process of this machine that bears such a mark, and what descends from it, until none is alive; how many. */
export async function sweepMarks(pattern: MarkPattern, spared: readonly number[] = []): Promise<number> {
  const { killed } = await killTree({ marked: (text) => matchesMark(pattern, text), spared });
  return killed;
}

/**
 * Kills what workers of this store left behind that died on this machine; how many. A worker does
 * this at its start. Processes of another store, of a living worker, or of one on another machine
 * are never touched.
 */
export async function sweepDeadWorkers(store: string): Promise<number> {
  const dead = new Map<string, boolean>();
  const isDead = (worker: string): boolean => {
    const known = dead.get(worker) ?? workerLiveness(worker) === "dead";
    dead.set(worker, known);
    return known;
  };
  const { killed } = await killTree({
    marked: (text) => {
      const mark = parseMark(text);
      return mark !== undefined && mark.store === store && isDead(mark.worker);
    },
  });
  return killed;
}
