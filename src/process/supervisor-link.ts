import { spawn, type ChildProcess } from "node:child_process";
import { Socket } from "node:net";
import { entryPath } from "./entry.ts";
import { LineSplitter } from "./json-lines.ts";
import { sigkill } from "./kill-tree.ts";
import { SupervisorReport, type SupervisorLine } from "./supervisor-lines.ts";

/** What the supervisor is to know of a process. `deadlineAt` is epoch ms. */
export interface WatchOrder {
  readonly pid: number;
  readonly mark: string;
  readonly deadlineAt?: number | undefined;
  /** MiB that its whole tree may hold; over it, it is killed, and `onOverMemory` is told before. */
  readonly memoryMb?: number | undefined;
  readonly onOverMemory?: ((usedMb: number) => void) | undefined;
}

/** With the deadline in ms of `performance.now()`: a clock that is set does not move it. */
interface Watched extends Omit<WatchOrder, "deadlineAt"> {
  readonly deadlineMs: number | undefined;
}

export interface SupervisorLinkOptions {
  readonly store: string;
  readonly worker: string;
  /** Said when the supervisor died and is started again. */
  readonly onRestart?: (() => void) | undefined;
}

/** One that dies sooner than this after its start, as the one before did, is not started again at once. */
const SHORT_LIFE_MS = 1000;
const RESTART_DELAY_MS = 500;
/** How long `close` gives the supervisor to sweep and end. */
const CLOSE_MS = 5000;

/**
 * The worker's end of its supervisor: a process in a session of its own, started with the first
 * watch, told everything again by a new one when it dies. It keeps no worker from exiting: its
 * pipe ends with the worker, and that is its order to kill.
 */
export class SupervisorLink {
  readonly #options: SupervisorLinkOptions;
  readonly #watches = new Map<number, Watched>();
  #nextId = 1;
  #child: ChildProcess | undefined;
  #startedAt = 0;
  #shortLives = 0;
  #retry: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(options: SupervisorLinkOptions) {
    this.#options = options;
  }

  /** The supervisor's pid, while there is one. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Returns the number to give to {@link done}. */
  watch({ deadlineAt, ...order }: WatchOrder): number {
    const id = this.#nextId++;
    const deadlineMs = deadlineAt === undefined ? undefined : performance.now() + (deadlineAt - Date.now());
    const watched = { ...order, deadlineMs };
    this.#watches.set(id, watched);
    if (this.#child === undefined) this.#start();
    else this.#tell(id, watched);
    return id;
  }

  done(id: number): void {
    if (this.#watches.delete(id)) this.#write({ type: "done", id });
  }

  /** Ends the supervisor, which kills what is left of the worker's processes. Resolves when it is gone. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#retry);
    const child = this.#child;
    const pid = child?.pid;
    if (child === undefined || pid === undefined) return;
    await new Promise<void>((resolve) => {
      const force = setTimeout(() => {
        sigkill(pid);
        resolve();
      }, CLOSE_MS);
      const gone = (): void => {
        clearTimeout(force);
        resolve();
      };
      if (child.exitCode !== null || child.signalCode !== null) gone();
      else {
        child.once("exit", gone);
        child.ref();
        child.stdin?.end();
      }
    });
  }

  #start(): void {
    if (this.#closed || this.#child !== undefined) return;
    this.#startedAt = performance.now();
    let child: ChildProcess;
    try {
      child = this.#spawn();
    } catch {
      // What it is to watch has been started already, and is not to fail for this.
      this.#startAgain();
      return;
    }
    this.#child = child;
    child.on("error", () => this.#lost(child));
    child.on("exit", () => this.#lost(child));
    const splitter = new LineSplitter({ onLine: (line) => this.#hear(line) });
    child.stdout?.on("data", (chunk: Buffer) => splitter.push(chunk));
    child.unref();
    for (const pipe of [child.stdin, child.stdout]) {
      pipe?.on("error", () => undefined);
      if (pipe instanceof Socket) pipe.unref();
    }
    for (const [id, order] of this.#watches) this.#tell(id, order);
  }

  #spawn(): ChildProcess {
    const { store, worker } = this.#options;
    return spawn(process.execPath, [entryPath("supervisor"), store, worker, String(process.pid)], {
      // Its own session, so that no Ctrl-C and no kill of the worker's group reaches it; no pipe but its
      // own, so that it holds nobody's output open; no environment, so that no sweep takes it for an agent.
      detached: true,
      cwd: "/",
      env: {},
      stdio: ["pipe", "pipe", "ignore"],
    });
  }

  #lost(child: ChildProcess): void {
    if (this.#child !== child) return;
    this.#child = undefined;
    child.stdin?.destroy();
    this.#startAgain();
  }

  #startAgain(): void {
    if (this.#closed || this.#watches.size === 0) return;
    this.#options.onRestart?.();
    this.#shortLives = performance.now() - this.#startedAt < SHORT_LIFE_MS ? this.#shortLives + 1 : 0;
    if (this.#shortLives <= 1) this.#start();
    else {
      clearTimeout(this.#retry);
      this.#retry = setTimeout(() => this.#start(), RESTART_DELAY_MS).unref();
    }
  }

  #hear(line: string): void {
    let said: unknown;
    try {
      said = JSON.parse(line);
    } catch {
      return;
    }
    const report = SupervisorReport.safeParse(said).data;
    if (report !== undefined) this.#watches.get(report.id)?.onOverMemory?.(report.usedMb);
  }

  #tell(id: number, { pid, mark, deadlineMs, memoryMb }: Watched): void {
    const dueMs = deadlineMs === undefined ? {} : { dueMs: Math.max(0, deadlineMs - performance.now()) };
    this.#write({ type: "watch", id, pid, mark, ...dueMs, ...(memoryMb === undefined ? {} : { memoryMb }) });
  }

  #write(line: SupervisorLine): void {
    const stdin = this.#child?.stdin;
    if (stdin?.writable === true) stdin.write(`${JSON.stringify(line)}\n`);
  }
}
