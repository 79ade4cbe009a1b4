import { spawnSync } from "node:child_process";
import { readProc } from "./process-table.ts";

const KIB_PER_MIB = 1024;

/**
 * The memory that these processes hold together, in MiB, what was swapped out included; Infinity never. What they share
 * is counted once: a program that forks without writing does not double it. That is asked only when the plain sum, which
 * is quick to read and counts it for each, is over `enoughMb`.
 */
export function memoryMbOf(pids: readonly number[], enoughMb: number): number {
  if (process.platform !== "linux") return psMb(pids);
  const plainMb = sumMb(pids, (pid) => fieldsOf(readProc(pid, "status"), ["VmRSS", "VmSwap"]));
  if (plainMb <= enoughMb) return plainMb;
  return sumMb(pids, (pid) => {
    const rollup = readProc(pid, "smaps_rollup");
    // Another user's, or an old kernel's: the plain figure is what there is.
    if (rollup === undefined) return fieldsOf(readProc(pid, "status"), ["VmRSS", "VmSwap"]);
    return fieldsOf(rollup, ["Pss", "SwapPss"]);
  });
}

function sumMb(pids: readonly number[], kibOf: (pid: number) => number): number {
  return pids.reduce((sum, pid) => sum + kibOf(pid), 0) / KIB_PER_MIB;
}

/** The sum of lines such as `VmRSS:    1234 kB`. */
function fieldsOf(text: string | undefined, names: readonly string[]): number {
  if (text === undefined) return 0;
  return names.reduce((sum, name) => sum + Number(new RegExp(`^${name}:\\s*(\\d+) kB$`, "m").exec(text)?.[1] ?? 0), 0);
}

function psMb(pids: readonly number[]): number {
  if (pids.length === 0) return 0;
  const { stdout } = spawnSync("ps", ["-o", "rss=", "-p", pids.join(",")], { encoding: "utf8" });
  return (stdout ?? "").split("\n").reduce((sum, kib) => sum + Number(kib), 0) / KIB_PER_MIB;
}
