import { addDescendants } from "./kill-tree.ts";
import { memoryMbOf } from "./memory-use.ts";
import { machineTable, type ProcessRow, type ProcessTable } from "./process-table.ts";

/** A tree of processes whose memory is bounded: the group of `pid`, what bears the mark, and all that descends from them. */
export interface MemoryBound {
  readonly id: number;
  readonly pid: number;
  readonly mark: string;
  readonly memoryMb?: number | undefined;
}

export interface MemoryDeps {
  readonly table: ProcessTable;
  readonly memoryMbOf: (pids: readonly number[], enoughMb: number) => number;
}

/** A program takes some 3 GB a second at most. */
const LOOK_EVERY_MS = 100;
/** How many times as long as the last look took nobody looks again: at most a twentieth of one processor. */
const REST = 20;

const MACHINE: MemoryDeps = { table: machineTable, memoryMbOf };

/** Looks at the memory of trees, all of them in one look. Each that is over its bound is told of once. */
export class MemoryWatch<B extends MemoryBound> {
  readonly #onOver: (bound: B, usedMb: number) => void;
  readonly #deps: MemoryDeps;
  readonly #bounds = new Map<number, B>();
  #marks = new Map<string, readonly string[]>();
  #timer: NodeJS.Timeout | undefined;

  constructor(onOver: (bound: B, usedMb: number) => void, deps: MemoryDeps = MACHINE) {
    this.#onOver = onOver;
    this.#deps = deps;
  }

  watch(bound: B): void {
    if (bound.memoryMb === undefined) return;
    this.#bounds.set(bound.id, bound);
    this.#timer ??= setTimeout(() => this.#lookAgain(), LOOK_EVERY_MS);
  }

  forget(id: number): void {
    this.#bounds.delete(id);
    if (this.#bounds.size > 0) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#marks.clear();
  }

  /** One look at all of them. Throws when it cannot look. */
  look(): void {
    const rows = this.#deps.table.list().filter((row) => !row.dead);
    const marks = this.#marksOf(rows);
    for (const bound of this.#bounds.values()) {
      const { memoryMb = Infinity } = bound;
      const usedMb = this.#deps.memoryMbOf(treeOf(bound, rows, marks), memoryMb);
      if (usedMb <= memoryMb) continue;
      this.#bounds.delete(bound.id);
      this.#onOver(bound, Math.round(usedMb));
    }
  }

  #lookAgain(): void {
    const from = performance.now();
    try {
      this.look();
    } catch {
      // nothing can be seen for want of files: the next look may
    }
    const tookMs = performance.now() - from;
    this.#timer =
      this.#bounds.size === 0 ? undefined : setTimeout(() => this.#lookAgain(), Math.max(LOOK_EVERY_MS, tookMs * REST));
  }

  /** A process keeps the mark that it was started with, so each is read once. */
  #marksOf(rows: readonly ProcessRow[]): ReadonlyMap<number, readonly string[]> {
    const before = this.#marks;
    this.#marks = new Map();
    const byPid = new Map<number, readonly string[]>();
    for (const { pid, startTicks } of rows) {
      const key = `${pid} ${startTicks ?? ""}`;
      const marks = before.get(key) ?? this.#deps.table.marksOf(pid);
      this.#marks.set(key, marks);
      byPid.set(pid, marks);
    }
    return byPid;
  }
}

function treeOf(
  { pid, mark }: MemoryBound,
  rows: readonly ProcessRow[],
  marks: ReadonlyMap<number, readonly string[]>,
): number[] {
  const found = new Set(
    rows.filter((row) => row.pgid === pid || marks.get(row.pid)?.includes(mark) === true).map((row) => row.pid),
  );
  addDescendants(rows, found);
  return [...found];
}
