import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/** What ends by itself may take this long: the keeper of an embedded Redis goes 5 s after its last client. */
const WAIT_MS = 8000;
/** What a run keeps by intention, below its folder: the transpiled modules of jiti. */
const KEPT: ReadonlySet<string> = new Set(["jiti"]);

/** A process that belongs to a folder: by its environment, its arguments or the folder it is in. */
export interface LeftProcess {
  readonly pid: number;
  readonly command: string;
}

/** The living processes that belong to a folder, but this one and its children. Nothing where there is no /proc. */
export function processesOf(folder: string): LeftProcess[] {
  const pids = process.platform === "linux" ? readdirSync("/proc").filter((name) => /^\d+$/.test(name)) : [];
  return pids.flatMap((pid) => {
    try {
      const command = readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ").trim();
      const status = readFileSync(`/proc/${pid}/status`, "utf8");
      const parent = Number(/^PPid:\s+(\d+)/m.exec(status)?.[1]);
      const ended = /^State:\s+[ZX]/m.test(status);
      if (ended || Number(pid) === process.pid || parent === process.pid) return [];
      const belongs =
        command.includes(folder) ||
        readFileSync(`/proc/${pid}/environ`, "utf8").includes(folder) ||
        readlinkSync(`/proc/${pid}/cwd`).startsWith(folder);
      return belongs ? [{ pid: Number(pid), command }] : [];
    } catch {
      // It has ended meanwhile, or is somebody else's.
      return [];
    }
  });
}

/** What lies in a folder and is not there by intention. */
function filesIn(folder: string): string[] {
  return readdirSync(folder).filter((name) => !KEPT.has(name));
}

/** What is in the places that tests may not write to: the checkout, its embedded Redis and the home folder. */
function outside(): string[] {
  const listed = (folder: string): string[] => {
    try {
      return readdirSync(folder).map((name) => join(folder, name));
    } catch {
      return [];
    }
  };
  return [...changed(), ...listed(".turnq"), ...listed(homedir())];
}

/** What git sees that is not committed; nothing where the project is no checkout. */
function changed(): string[] {
  try {
    const said = execFileSync("git", ["status", "--porcelain"], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    });
    return said.split("\n").filter((line) => line !== "");
  } catch {
    return [];
  }
}

function end(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended just now.
  }
}

/** Ends and removes what a run has left in its folder, and says what it was. */
export async function clearAway(folder: string, waitMs = WAIT_MS): Promise<string[]> {
  for (const until = Date.now() + waitMs; processesOf(folder).length > 0 && Date.now() < until;) await sleep(100);
  const processes = processesOf(folder);
  const files = filesIn(folder);
  for (const { pid } of processes) end(pid);
  rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
  return [
    ...processes.map(({ pid, command }) => `process ${pid}: ${command}`),
    ...files.map((name) => `in the temporary folder: ${name}`),
  ];
}

/** Vitest sets up once for each project: the first does it, the last one's end checks. */
const RUN = Symbol.for("turnq.test.leftovers");
interface Run {
  readonly folder: string;
  readonly before: ReadonlySet<string>;
  users: number;
}

/**
 * A run has a temporary folder of its own, which marks what it starts and writes. What is left of it at the end fails the
 * run: processes, files, what was written outside. Keys are in servers of the run, which are processes of it.
 */
export function setup(): () => Promise<void> {
  const run = ((globalThis as Record<symbol, unknown>)[RUN] ??= started()) as Run;
  run.users += 1;
  return async () => {
    run.users -= 1;
    if (run.users > 0) return;
    const left = await clearAway(run.folder);
    left.push(...outside().filter((line) => !run.before.has(line)));
    if (left.length === 0) return;
    process.stderr.write(`The tests have left behind:\n${left.map((line) => `  ${line}\n`).join("")}`);
    process.exitCode = 1;
  };
}

function started(): Run {
  const before = new Set(outside());
  // Short: a socket's path has at most 107 bytes.
  const folder = mkdtempSync(join(tmpdir(), "tq-"));
  process.env["TMPDIR"] = folder;
  return { folder, before, users: 0 };
}
