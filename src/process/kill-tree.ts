import { setTimeout as pause } from "node:timers/promises";
import { machineTable, type ProcessRow, type ProcessTable } from "./process-table.ts";

/** What is to be killed: process groups, and every process whose mark `marked` accepts; with all that descends from them. */
export interface KillTarget {
  readonly groups?: readonly number[] | undefined;
  readonly marked?: ((mark: string) => boolean) | undefined;
  /** Never killed and never gone through: the worker and its supervisor. Pid 1 and this process are always spared. */
  readonly spared?: readonly number[] | undefined;
}

/** What a kill came to. `survivors` are those that were still there after the last round (in practice: stuck in the kernel). */
export interface KillOutcome {
  readonly killed: number;
  readonly survivors: readonly number[];
}

/** What a kill acts on. Injected in tests. */
export interface KillDeps {
  readonly table: ProcessTable;
  readonly kill: (pid: number) => void;
}

const MACHINE: KillDeps = { table: machineTable, kill: sigkill };
/** A killed process is gone within a millisecond or two, one with much memory within some tens: together about two seconds. */
const ROUNDS_MS: readonly number[] = [
  1, 1, 2, 2, 5, 5, 10, 10, 20, 20, 40, 40, 60, 80, 100, 150, 200, 250, 300, 350, 400,
];

/** Kills by SIGKILL until a scan finds none of the target alive. Never throws. */
export async function killTree(target: KillTarget, deps: KillDeps = MACHINE): Promise<KillOutcome> {
  const killed = new Set<number>();
  for (const waitMs of ROUNDS_MS) {
    if (killOnce(target, deps, killed).length === 0) return { killed: killed.size, survivors: [] };
    await pause(waitMs);
  }
  return { killed: killed.size, survivors: killOnce(target, deps, killed) };
}

/** The same without giving up the thread, for signal, exit and timer handlers. */
export function killTreeSync(target: KillTarget, deps: KillDeps = MACHINE): KillOutcome {
  const killed = new Set<number>();
  const cell = new Int32Array(new SharedArrayBuffer(4));
  for (const waitMs of ROUNDS_MS) {
    if (killOnce(target, deps, killed).length === 0) return { killed: killed.size, survivors: [] };
    Atomics.wait(cell, 0, 0, waitMs);
  }
  return { killed: killed.size, survivors: killOnce(target, deps, killed) };
}

function killOnce(target: KillTarget, deps: KillDeps, killed: Set<number>): number[] {
  const alive = lookFor(deps.table, target, killed);
  // A group is killed at one stroke first: its members cannot fork their way out between two kills.
  if (alive.length > 0) for (const group of target.groups ?? []) deps.kill(-group);
  for (const pid of alive) {
    killed.add(pid);
    deps.kill(pid);
  }
  return alive;
}

/** Where nothing can be seen, the groups are struck blindly and the look is repeated. */
function lookFor(table: ProcessTable, target: KillTarget, killed: ReadonlySet<number>): number[] {
  try {
    return targetsIn(table, target, killed);
  } catch {
    return [...(target.groups ?? [])];
  }
}

/**
 * Who of the table is meant, by one look at it: a child whose environment was cleared (`env -i`)
 * is known only by its parent, so it must be found before the parent is killed. `killed` have been
 * struck: one that is about to end has no environment any more, but may still hold files and ports.
 */
export function targetsIn(table: ProcessTable, target: KillTarget, killed: ReadonlySet<number> = new Set()): number[] {
  const spared = new Set([0, 1, process.pid, ...(target.spared ?? [])]);
  const groups = new Set(target.groups ?? []);
  const { marked } = target;
  const rows = table.list().filter((row) => !spared.has(row.pid));
  const found = new Set<number>();
  for (const row of rows) {
    const known = groups.has(row.pgid) || killed.has(row.pid);
    const marks = marked === undefined || row.dead || known ? [] : table.marksOf(row.pid);
    if (known || marks.some((mark) => marked?.(mark) === true)) found.add(row.pid);
  }
  addDescendants(rows, found);
  return rows.filter((row) => found.has(row.pid) && !row.dead).map((row) => row.pid);
}

/** Adds whatever descends from those that were found. */
export function addDescendants(rows: readonly ProcessRow[], found: Set<number>): void {
  if (found.size === 0) return;
  const children = new Map<number, ProcessRow[]>();
  for (const row of rows) {
    const siblings = children.get(row.ppid);
    if (siblings === undefined) children.set(row.ppid, [row]);
    else siblings.push(row);
  }
  const open = [...found];
  for (let pid = open.pop(); pid !== undefined; pid = open.pop()) {
    for (const child of children.get(pid) ?? []) {
      if (found.has(child.pid)) continue;
      found.add(child.pid);
      open.push(child.pid);
    }
  }
}

/** Also for groups, as a negative pid. Whoever is gone already is no error. */
export function sigkill(pid: number): void {
  signal(pid, "SIGKILL");
}

/** Sends a signal; false when there is nobody who gets it. */
export function signal(pid: number, name: NodeJS.Signals): boolean {
  // 0, 1 and -1 mean the own group, init and everybody.
  if (!Number.isInteger(pid) || Math.abs(pid) <= 1) return false;
  try {
    return process.kill(pid, name);
  } catch {
    return false;
  }
}
