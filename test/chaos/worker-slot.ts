import { fork, type ChildProcess } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { LeaseSettings } from "../../src/ledger/lease-settings.ts";

const ENTRY = fileURLToPath(new URL("../fixtures/chaos/worker.mjs", import.meta.url));
/** A shutdown of 5 s that takes longer than this hangs, in ms: the machine may be slow, and Redis away when it began. */
const CLOSE_MAX_MS = 30_000;
const START_MAX_MS = 60_000;

/** What a worker process is told. */
export interface WorkerArguments {
  readonly concurrency: number;
  readonly laneConcurrency: Readonly<Record<string, number>>;
  readonly leases?: LeaseSettings | undefined;
  readonly verbose: boolean;
}

interface Said {
  readonly ready?: true;
  readonly running?: number;
}

/** A place for a worker process: when one ends, the next one is started there. */
export class WorkerSlot {
  readonly url: string;
  readonly #arguments: WorkerArguments;
  readonly #say: (text: string) => void;
  #child: ChildProcess | undefined;
  #ended: Promise<void> = Promise.resolve();
  #closing = false;
  #up = false;
  #timer: NodeJS.Timeout | undefined;
  /** True while it takes turns and nothing is being done to it. */
  idle = false;
  /** Attempts that it runs, as it said last. */
  running = 0;
  /** How many were killed. */
  kills = 0;
  /** Shutdowns that hung, and processes that ended by themselves. */
  readonly faults: string[] = [];

  constructor(url: string, args: WorkerArguments, say: (text: string) => void) {
    this.url = url;
    this.#arguments = args;
    this.#say = say;
  }

  /** True once it takes turns, until it ends. */
  get up(): boolean {
    return this.#up;
  }

  get pid(): number {
    return this.#child?.pid ?? 0;
  }

  start(): void {
    const child = fork(ENTRY, [JSON.stringify({ ...this.#arguments, url: this.url })], {
      execArgv: [],
      stdio: ["ignore", "ignore", "inherit", "ipc"],
    });
    this.#child = child;
    const tooSlow = setTimeout(() => {
      this.faults.push(`worker ${child.pid} did not start within ${START_MAX_MS} ms`);
      child.kill("SIGKILL");
    }, START_MAX_MS);
    child.on("message", (said: Said) => {
      if (said.ready === true) {
        clearTimeout(tooSlow);
        this.#up = true;
        this.idle = true;
      }
      if (said.running !== undefined) this.running = said.running;
    });
    child.on("error", () => undefined);
    this.#ended = new Promise((resolve) => {
      child.once("exit", (code, signal) => {
        clearTimeout(tooSlow);
        this.#up = false;
        this.idle = false;
        this.running = 0;
        if (code !== 0 && signal !== "SIGKILL")
          this.faults.push(`worker ${child.pid} ended by itself: ${signal ?? `exit code ${code}`}`);
        if (!this.#closing) this.start();
        resolve();
      });
    });
  }

  /** SIGKILL. */
  kill(): void {
    this.idle = false;
    this.kills += 1;
    this.#child?.kill("SIGKILL");
  }

  /** SIGTERM; resolves when it has ended. */
  async terminate(): Promise<void> {
    this.idle = false;
    const child = this.#child;
    const hangs = setTimeout(() => {
      this.faults.push(`worker ${child?.pid} was told to end and did not within ${CLOSE_MAX_MS} ms`);
      child?.kill("SIGKILL");
    }, CLOSE_MAX_MS);
    child?.kill("SIGTERM");
    await this.#ended;
    clearTimeout(hangs);
  }

  /** SIGSTOP, and SIGCONT after so long. */
  async freeze(ms: number): Promise<void> {
    this.idle = false;
    const child = this.#child;
    child?.kill("SIGSTOP");
    await this.#pause(ms);
    child?.kill("SIGCONT");
    this.#idleAgain(child);
  }

  /** Has its event loop do nothing else for so long. */
  async block(ms: number): Promise<void> {
    this.idle = false;
    const child = this.#child;
    child?.send({ blockMs: ms });
    await this.#pause(ms);
    this.#idleAgain(child);
  }

  #idleAgain(child: ChildProcess | undefined): void {
    this.idle = child === this.#child && child?.exitCode === null && child.signalCode === null;
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => (this.#timer = setTimeout(resolve, ms)));
  }

  /** Ends the worker for good. */
  async close(): Promise<void> {
    this.#closing = true;
    if (this.#child !== undefined && this.#child.exitCode === null && this.#child.signalCode === null)
      await this.terminate();
    this.#say(`worker ${this.pid} has ended`);
  }

  /** SIGKILL for good, at the end of a run that broke off. */
  destroy(): void {
    this.#closing = true;
    clearTimeout(this.#timer);
    this.#child?.kill("SIGKILL");
  }
}
