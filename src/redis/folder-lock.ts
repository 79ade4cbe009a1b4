import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

/** What `flock` and `lockf` exit with when another process holds the lock. */
export const LOCK_HELD_EXIT_CODE = 75;

/**
 * A program of the system that holds a file lock for as long as the program lives that it starts. The kernel
 * frees it with the process, so there are no stale locks. undefined where there is none.
 */
export type LockProgram = "flock" | "lockf";

/** `flock` of util-linux on Linux; `lockf` on macOS and BSD (not tried out by us). */
export function findLockProgram(
  pathEnv: string | undefined,
  platform: NodeJS.Platform = process.platform,
): LockProgram | undefined {
  const name = platform === "linux" ? "flock" : "lockf";
  const found = (pathEnv ?? "").split(delimiter).some((folder) => folder !== "" && isExecutable(join(folder, name)));
  return found ? name : undefined;
}

/** To be put before a command. With `flock` the command keeps the pid, by exec; it does not wait for the lock. */
export function lockWrapper(program: LockProgram | undefined, file: string): string[] {
  switch (program) {
    case undefined:
      return [];
    case "flock":
      return ["flock", "--no-fork", "--nonblock", "--conflict-exit-code", String(LOCK_HELD_EXIT_CODE), file];
    case "lockf":
      return ["lockf", "-k", "-s", "-t", "0", file];
  }
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
