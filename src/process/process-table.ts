import { spawnSync } from "node:child_process";
import { closeSync, openSync, readSync, readdirSync } from "node:fs";
import { MARK_NAME, parseMark } from "./mark.ts";

/** One process of this machine. `dead`: a zombie, which runs no more but still answers `kill(pid, 0)`. */
export interface ProcessRow {
  readonly pid: number;
  readonly ppid: number;
  readonly pgid: number;
  readonly dead: boolean;
  /** Tells two processes apart that had the same pid one after the other, where that can be seen. */
  readonly startTicks?: number | undefined;
}

/** What can be seen of the machine's processes. Injected where tests make up a table. */
export interface ProcessTable {
  /** Both throw when they cannot look, which is when this process has too many files open. */
  list(): ProcessRow[];
  /**
   * The mark in the process's environment as it was at its start, and, of a runner, that of the turn which it runs now:
   * none when it has none or may not be read.
   */
  marksOf(pid: number): readonly string[];
}

/**
 * The table of this machine. On Linux it is read from /proc. Elsewhere `ps` gives it and marks
 * cannot be read: what left both its group and its parent is not found there.
 */
export const machineTable: ProcessTable =
  process.platform === "linux" ? { list: listProc, marksOf: procMarks } : { list: listPs, marksOf: () => [] };

function listProc(): ProcessRow[] {
  const rows: ProcessRow[] = [];
  for (const name of readdirSync("/proc")) {
    const pid = Number(name);
    if (!Number.isInteger(pid)) continue;
    const stat = procStat(pid);
    if (stat === undefined || stat.kernel) continue;
    const { ppid, pgid, dead, startTicks } = stat;
    rows.push({ pid, ppid, pgid, dead, startTicks });
  }
  return rows;
}

/** What /proc/PID/stat says; `startTicks` tells two processes apart that had the same pid one after the other. */
export interface ProcStat {
  readonly ppid: number;
  readonly pgid: number;
  readonly dead: boolean;
  /** A thread of the kernel. */
  readonly kernel: boolean;
  readonly startTicks: number;
}

/** PF_KTHREAD of Linux's `sched.h`. */
const KERNEL_THREAD = 0x0020_0000;

/** Undefined when there is no such process, or no /proc. */
export function procStat(pid: number): ProcStat | undefined {
  const text = readProc(pid, "stat");
  if (text === undefined) return undefined;
  // The second field is the program's name in brackets and may hold anything, brackets and spaces too.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const state = fields[0] ?? "";
  return {
    ppid: Number(fields[1]),
    pgid: Number(fields[2]),
    dead: state === "Z" || state === "X" || state === "x",
    kernel: (Number(fields[6]) & KERNEL_THREAD) !== 0,
    startTicks: Number(fields[19]),
  };
}

const MARK_PREFIX = `${MARK_NAME}=`;

function procMarks(pid: number): readonly string[] {
  const mark = procMark(pid);
  if (mark === undefined) return [];
  // A runner's environment is that of its start; the turn that it runs stands in its title.
  const title = parseMark(mark)?.turn.startsWith("~") === true ? readProc(pid, "cmdline") : undefined;
  if (title?.startsWith(MARK_PREFIX) !== true) return [mark];
  return [mark, title.slice(MARK_PREFIX.length).split("\0", 1)[0] ?? ""];
}

function procMark(pid: number): string | undefined {
  const text = readProc(pid, "environ");
  if (text === undefined) return undefined;
  let at = text.startsWith(MARK_PREFIX) ? 0 : text.indexOf(`\0${MARK_PREFIX}`);
  if (at < 0) return undefined;
  if (at > 0) at += 1;
  const end = text.indexOf("\0", at);
  return text.slice(at + MARK_PREFIX.length, end < 0 ? undefined : end);
}

/** Used again for every file: a look reads hundreds of them. */
const block = Buffer.allocUnsafe(64 * 1024);

/** A file of /proc/PID; undefined when there is no such process, or it may not be read. */
export function readProc(pid: number, file: string): string | undefined {
  let fd: number | undefined;
  try {
    fd = openSync(`/proc/${pid}/${file}`, "r");
    let text = "";
    for (;;) {
      const bytes = readSync(fd, block);
      text += block.toString("latin1", 0, bytes);
      // What is shorter than the block, and than the page that the kernel gives at most, is all there is.
      if (bytes === 0 || bytes < 4096) return text;
    }
  } catch (error) {
    // Without a file to open nothing can be seen: that must not look as if nobody were there.
    if (error instanceof Error && "code" in error && (error.code === "EMFILE" || error.code === "ENFILE")) throw error;
    return undefined;
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

function listPs(): ProcessRow[] {
  const { stdout } = spawnSync("ps", ["-A", "-o", "pid=,ppid=,pgid=,stat="], { encoding: "utf8" });
  return (stdout ?? "")
    .split("\n")
    .map((line) => line.trim().split(/\s+/))
    .filter((fields) => fields.length === 4)
    .map(([pid, ppid, pgid, state]) => ({
      pid: Number(pid),
      ppid: Number(ppid),
      pgid: Number(pgid),
      dead: (state ?? "").startsWith("Z"),
    }));
}
