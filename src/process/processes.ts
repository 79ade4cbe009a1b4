import { spawn, type ChildProcess } from "node:child_process";
import { writeFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { allowedEnv } from "./allowed-env.ts";
import { MARK_NAME, type MarkPattern } from "./mark.ts";
import { MemoryShare } from "./memory-share.ts";
import { ProcessFailure, startFailure } from "./process-failure.ts";
import { programPath } from "./program-path.ts";
import { SupervisedProcess } from "./supervised-process.ts";
import { SupervisorLink } from "./supervisor-link.ts";
import { sweepMarks } from "./sweep.ts";
import { Sweeper } from "./sweeper.ts";
import { failure } from "../domain/failure.ts";

export interface SpawnOptions {
  /** Program and arguments; the program is looked up on `env.PATH`, a relative path from `cwd`. */
  readonly command: readonly string[];
  readonly cwd: string;
  /** The whole environment, but for the mark. */
  readonly env: Readonly<Record<string, string>>;
  readonly mark: string;
  /** Epoch ms. From then on the supervisor kills it, should the worker not have done so. */
  readonly deadlineAt?: number | undefined;
  /** MiB that it and all that it starts may hold. Over it the supervisor kills all of it, and its end says so. */
  readonly memoryMb?: number | undefined;
  readonly stdin: "pipe" | "ignore";
  readonly ipc?: boolean | undefined;
}

/** Starts the programs of one worker and sees to it that none outlives its attempt or the worker. */
export interface Processes {
  /**
   * Starts a program in a process group of its own.
   * @throws ProcessFailure when the program or the folder is missing, or all has been closed
   */
  spawn(options: SpawnOptions): SupervisedProcess;
  /** Kills everything of this machine that bears such a mark until none is alive; how many there were. */
  sweepMark(match: MarkPattern): Promise<number>;
  /** What an agent program gets of the worker's environment: the usual names and these. */
  allowedEnv(names?: readonly string[]): Record<string, string>;
  /** Store and worker, for the marks of processes that belong to no turn. */
  readonly place: { readonly store: string; readonly worker: string };
  /** What programs may hold where nobody said it. */
  readonly memory: MemoryShare;
  /** Kills everything that still runs and ends the supervisor. */
  close(): Promise<void>;
}

export interface ProcessesOptions {
  readonly store: string;
  /** The worker's id, as {@link workerId} gives it. */
  readonly worker: string;
  /** The worker's environment, of which programs get the allowed names. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Said when the supervisor died and is started again. */
  readonly onSupervisorRestart?: (() => void) | undefined;
}

/** How long `close` waits for killed processes to be gone. */
const CLOSE_MS = 3000;

/** The processes of one worker. Nothing is started before the first program is. */
export function openProcesses(options: ProcessesOptions): Processes & { readonly supervisorPid: number | undefined } {
  const { store, worker, env } = options;
  const link = new SupervisorLink({ store, worker, onRestart: options.onSupervisorRestart });
  const spared = (): readonly number[] => (link.pid === undefined ? [] : [link.pid]);
  const sweeper = new Sweeper(spared);
  const running = new Set<SupervisedProcess>();
  const memory = new MemoryShare();
  let closed: Promise<void> | undefined;

  function start(what: SpawnOptions): SupervisedProcess {
    const [program = "", ...args] = what.command;
    if (closed !== undefined) throw new ProcessFailure("closed", failure("internal", "the worker is closing"));
    // Node's pipes are sockets. A bash of the first level takes one on its stdin for a remote login and runs ~/.bashrc,
    // whose output would be the agent's.
    const childEnv = { SHLVL: "1", ...what.env, [MARK_NAME]: what.mark };
    const child = launch(program, args, { ...what, env: childEnv });
    const { pid } = child;
    if (pid !== undefined) offerToTheSystem(pid);
    const { mark, deadlineAt, memoryMb } = what;
    const onOverMemory = (usedMb: number): void => started.overMemory(usedMb);
    const watch = pid === undefined ? undefined : link.watch({ pid, mark, deadlineAt, memoryMb, onOverMemory });
    const started = new SupervisedProcess(child, {
      program,
      mark: what.mark,
      spared,
      sweep: (marks, group) => sweeper.sweep(marks, group),
      watch: (turn) => {
        if (pid === undefined) return () => undefined;
        const id = link.watch({ pid, ...turn, onOverMemory });
        return () => link.done(id);
      },
      ended: () => {
        running.delete(started);
        if (watch !== undefined) link.done(watch);
      },
    });
    running.add(started);
    return started;
  }

  async function close(): Promise<void> {
    const all = [...running];
    for (const process of all) process.kill();
    await sweepMarks({ store, worker }, spared());
    // Bounded: a process that is stuck in the kernel ends for nobody.
    await Promise.race([Promise.all(all.map((process) => process.ended)), pause(CLOSE_MS, undefined, { ref: false })]);
    await link.close();
  }

  return {
    place: { store, worker },
    memory,
    spawn: start,
    sweepMark: (match) => sweepMarks(match, spared()),
    allowedEnv: (names) => allowedEnv(env, names),
    close: () => (closed ??= close()),
    get supervisorPid() {
      return link.pid;
    },
  };
}

/** Of the scale from -1000 to 1000 on which Linux chooses whom to kill. */
const OOM_SCORE = "500";

/** When memory is short the system is to kill a program, which costs an attempt, and not the worker, which costs them all. */
function offerToTheSystem(pid: number): void {
  if (process.platform !== "linux") return;
  try {
    writeFileSync(`/proc/${pid}/oom_score_adj`, OOM_SCORE);
  } catch {
    // it has ended, or this may not be written here
  }
}

function launch(program: string, args: readonly string[], what: SpawnOptions): ChildProcess {
  const path = programPath(program, what.cwd, what.env);
  try {
    return spawn(path, args, {
      argv0: program,
      cwd: what.cwd,
      env: what.env,
      detached: true,
      stdio: [what.stdin, "pipe", "pipe", ...(what.ipc === true ? (["ipc"] as const) : [])],
    });
  } catch (error) {
    throw startFailure(program, error);
  }
}
