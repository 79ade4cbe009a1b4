import { spawnSync } from "node:child_process";
import { readFileSync, readdirSync } from "node:fs";
import { MARK_NAME } from "./mark.ts";

/** One process of this machine. `dead`: a zombie, which runs no more but still answers `kill(pid, 0)`. */
export interface ProcessRow {
  readonly pid: number;
  readonly ppid: number;
  readonly pgid: number;
  readonly dead: boolean;
}

/** What can be seen of the machine's processes. Injected where tests make up a table. */
export interface ProcessTable {
  list(): ProcessRow[];
  /** The mark in the process's environment as it was at its start; undefined when it has none or may not be read. */
  markOf(pid: number): string | undefined;
}

/**
 * The table of this machine. On Linux it is read from /proc. Elsewhere `ps` gives it and marks
 * cannot be read: what left both its group and its parent is not found there.
 */
export const machineTable: ProcessTable =
  process.platform === "linux" ? { list: listProc, markOf: procMark } : { list: listPs, markOf: () => undefined };

function listProc(): ProcessRow[] {
  const rows: ProcessRow[] = [];
  for (const name of readdirSync("/proc")) {
    const pid = Number(name);
    if (!Number.isInteger(pid)) continue;
    const stat = procStat(pid);
    if (stat !== undefined) rows.push({ pid, ppid: stat.ppid, pgid: stat.pgid, dead: stat.dead });
  }
  return rows;
}

/** What /proc/PID/stat says; `startTicks` tells two processes apart that had the same pid one after the other. */
export interface ProcStat {
  readonly ppid: number;
  readonly pgid: number;
  readonly dead: boolean;
  readonly startTicks: number;
}

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
    startTicks: Number(fields[19]),
  };
}

const MARK_PREFIX = `${MARK_NAME}=`;

function procMark(pid: number): string | undefined {
  const text = readProc(pid, "environ");
  if (text === undefined) return undefined;
  let at = text.startsWith(MARK_PREFIX) ? 0 : text.indexOf(`\0${MARK_PREFIX}`);
  if (at < 0) return undefined;
  if (at > 0) at += 1;
  const end = text.indexOf("\0", at);
  return text.slice(at + MARK_PREFIX.length, end < 0 ? undefined : end);
}

function readProc(pid: number, file: string): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "latin1");
  } catch {
    return undefined;
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
