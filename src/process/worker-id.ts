import { randomBytes } from "node:crypto";
import { readlinkSync } from "node:fs";
import { hostname } from "node:os";
import { procStat, type ProcStat } from "./process-table.ts";

/**
 * A worker's id: `<machine>.<pid>.<start time in clock ticks, base 36>.<random>`. Pid and start
 * time together name one process of one boot, so any process of the machine can tell whether the
 * worker lives. The machine is its short name and its process namespace: containers of one image
 * may share the name and have pids of their own.
 */
export function workerId(pid: number = process.pid): string {
  const ticks = procStat(pid)?.startTicks ?? 0;
  return `${machineName()}.${pid}.${ticks.toString(36)}.${randomBytes(4).toString("hex")}`;
}

/** `elsewhere`: on another machine, not an id of this form, or not to be seen just now; nothing can be said. */
export type Liveness = "alive" | "dead" | "elsewhere";

/** What this machine knows of a worker. */
export function workerLiveness(id: string): Liveness {
  const [machine, pid, ticks, random] = id.split(".");
  if (machine !== machineName() || random === undefined || !/^\d+$/.test(pid ?? "")) return "elsewhere";
  if (process.platform !== "linux") return answers(Number(pid)) ? "alive" : "dead";
  const stat = statOf(Number(pid));
  if (stat === "unseen") return "elsewhere";
  return stat !== undefined && !stat.dead && stat.startTicks.toString(36) === ticks ? "alive" : "dead";
}

function statOf(pid: number): ProcStat | "unseen" | undefined {
  try {
    return procStat(pid);
  } catch {
    return "unseen";
  }
}

let known: string | undefined;

function machineName(): string {
  known ??= `${shortName()}-${namespace()}`;
  return known;
}

function shortName(): string {
  const name = (hostname().split(".")[0] ?? "").replaceAll(/[^A-Za-z0-9-]/g, "").slice(0, 30);
  return name === "" ? "machine" : name;
}

function namespace(): string {
  try {
    const inode = /\d+/.exec(readlinkSync("/proc/self/ns/pid"))?.[0] ?? "0";
    return Number(inode).toString(36);
  } catch {
    return "0";
  }
}

function answers(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    // A process of another user answers so.
    return error instanceof Error && "code" in error && error.code === "EPERM";
  }
}
