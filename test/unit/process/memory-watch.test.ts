import { expect, test } from "vitest";
import { shareOf } from "../../../src/process/memory-share.ts";
import { MemoryWatch, type MemoryBound } from "../../../src/process/memory-watch.ts";

test("U13: a tree is its group, what bears its mark, and what descends from them; each is told of once", () => {
  const mb: Record<number, number> = { 10: 10, 11: 20, 12: 30, 13: 40, 20: 500 };
  const rows = [
    { pid: 10, ppid: 1, pgid: 10, dead: false },
    { pid: 11, ppid: 10, pgid: 10, dead: false },
    { pid: 12, ppid: 1, pgid: 12, dead: false }, // in a session of its own, its parent is gone: known by its mark
    { pid: 13, ppid: 12, pgid: 13, dead: false }, // without an environment
    { pid: 14, ppid: 10, pgid: 10, dead: true },
    { pid: 20, ppid: 1, pgid: 20, dead: false },
  ];
  const asked: number[] = [];
  const marksOf = (pid: number): string[] => {
    asked.push(pid);
    return pid === 12 ? ["mine"] : [];
  };
  const over: [MemoryBound, number][] = [];
  const watch = new MemoryWatch((bound, usedMb) => over.push([bound, usedMb]), {
    table: { list: () => rows, marksOf },
    memoryMbOf: (pids) => pids.reduce((sum, pid) => sum + (mb[pid] ?? 0), 0),
  });
  const bound = { id: 1, pid: 10, mark: "mine", memoryMb: 100 };
  watch.watch(bound);
  watch.watch({ id: 2, pid: 20, mark: "other" });
  watch.look();
  expect(over).toEqual([]);
  expect(asked).toEqual([10, 11, 12, 13, 20]);
  mb[13] = 41;
  watch.look();
  watch.look();
  expect(over).toEqual([[bound, 101]]);
  // Marks do not change: none is read again.
  expect(asked).toHaveLength(5);
  watch.forget(1);
});

test("U13: without a limit an attempt has its share of three quarters of the memory, and no less than a program needs", () => {
  expect(shareOf(16_384, 1)).toBe(12_288);
  expect(shareOf(16_384, 4)).toBe(3072);
  expect(shareOf(16_384, 100)).toBe(1024);
  expect(shareOf(1024, 10)).toBe(384);
  expect(shareOf(16_384, 0)).toBe(12_288);
});
