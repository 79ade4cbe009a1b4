import type { ChildProcess, Serializable } from "node:child_process";
import { Socket } from "node:net";
import { Readable } from "node:stream";
import { setImmediate as nextRound, setTimeout as pause } from "node:timers/promises";
import { killTreeSync, signal } from "./kill-tree.ts";
import { startFailure, type ProcessFailure } from "./process-failure.ts";

/** How a process ended. `problem` is set when it could not be started at all. */
export interface ProcessEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly problem?: ProcessFailure | undefined;
  /** MiB that it and what it started held together when it was killed for that. */
  readonly overMemoryMb?: number | undefined;
  /** All that it said was read: its pipes and its channel came to their ends. */
  readonly heardOut: boolean;
}

/** What a process needs of whoever started it. */
export interface ProcessOwner {
  readonly program: string;
  readonly mark: string;
  /** Pids that no kill may touch. */
  readonly spared: () => readonly number[];
  readonly sweep: (marks: readonly string[], group?: number) => Promise<void>;
  /** Has a turn inside it watched; the answer lifts the watch. */
  readonly watch: (turn: WatchedTurn) => () => void;
  /** Called once, when it has ended and been swept. */
  readonly ended: () => void;
}

/** What is to be known of a turn inside a process. */
export interface WatchedTurn {
  readonly mark: string;
  /** Epoch ms. */
  readonly deadlineAt?: number | undefined;
  /** MiB that the process and what it started may hold. */
  readonly memoryMb?: number | undefined;
}

/** One turn inside a process that outlives it. */
export interface TurnWatch {
  /** Kills what the turn left behind and lifts its deadline. Resolves when none of it is alive. */
  done(): Promise<void>;
}

/** After the exit and the sweep: how long a pipe may be silent before it is let go, and how long it may go on in all. */
const SILENCE_MS = 250;
const DRAIN_MAX_MS = 5000;
const LOOK_MS = 25;

/**
 * A program that turnq started, in a process group of its own. `ended` settles once, never rejects,
 * and only when the program has exited, its last output was read, and nothing that bears its mark
 * is alive. Whoever starts one reads `stdout` and `stderr` from the first moment on.
 */
export class SupervisedProcess {
  readonly stdout: Readable;
  readonly stderr: Readable;
  readonly ended: Promise<ProcessEnd>;
  readonly #child: ChildProcess;
  readonly #owner: ProcessOwner;
  readonly #streams: readonly Socket[];
  /** Its own mark and those of turns inside it. */
  readonly #marks: Set<string>;
  #exited = false;
  #overMemoryMb: number | undefined;

  constructor(child: ChildProcess, owner: ProcessOwner) {
    this.#child = child;
    this.#owner = owner;
    this.#marks = new Set([owner.mark]);
    // Without a pipe there are no streams either: Node makes none when the machine is out of open files.
    this.stdout = child.stdout ?? Readable.from([]);
    this.stderr = child.stderr ?? Readable.from([]);
    this.#streams = [this.stdout, this.stderr].filter((stream) => stream instanceof Socket);
    // A program may exit before it has read its input (EPIPE), and an error without a listener would end the worker.
    for (const stream of [child.stdin, child.stdout, child.stderr]) stream?.on("error", () => undefined);
    this.ended = new Promise((resolve) => {
      child.once("exit", (code, name) => void this.#wrapUp(code, name).then(resolve));
      child.on("error", (error) => {
        if (child.pid === undefined) resolve(this.#neverStarted(error));
      });
    });
  }

  /** Undefined when it could not be started. */
  get pid(): number | undefined {
    return this.#child.pid;
  }

  get mark(): string {
    return this.#owner.mark;
  }

  /** True from its exit on; its pipes may not be read to their end yet. */
  get exited(): boolean {
    return this.#exited;
  }

  /** Writes to its stdin; nothing happens when it no longer reads. */
  write(text: string): void {
    const { stdin } = this.#child;
    if (stdin?.writable === true) stdin.write(text);
  }

  endInput(): void {
    const { stdin } = this.#child;
    if (stdin?.writable === true) stdin.end();
  }

  /** It held so much memory that it is being killed. */
  overMemory(usedMb: number): void {
    this.#overMemoryMb ??= usedMb;
  }

  /** A turn begins inside it: what the turn starts bears `mark`. At the deadline, or over its memory, all of the process is killed. */
  watchTurn(turn: WatchedTurn): TurnWatch {
    const { mark } = turn;
    this.#marks.add(mark);
    const lift = this.#owner.watch(turn);
    return {
      done: async () => {
        await this.#owner.sweep([mark]);
        this.#marks.delete(mark);
        lift();
      },
    };
  }

  /** SIGTERM to its group. */
  terminate(): void {
    if (this.pid !== undefined && !this.#exited) signal(-this.pid, "SIGTERM");
  }

  /** SIGKILL to its group and everything that bears its mark; does not wait. `ended` follows. */
  kill(): void {
    if (this.pid === undefined) return;
    if (!this.#exited) signal(-this.pid, "SIGKILL");
    void this.#owner.sweep([...this.#marks], this.pid);
  }

  /** The same, and returns only when all of it is dead (bounded). From any handler, at any time. */
  killSync(): void {
    if (this.pid === undefined) return;
    killTreeSync({ groups: [this.pid], marked: (mark) => this.#marks.has(mark), spared: this.#owner.spared() });
  }

  /** A message over its IPC channel; false when there is no channel (any more). */
  send(message: Serializable): boolean {
    if (!this.#child.connected) return false;
    // The callback takes the error of a channel that closes meanwhile.
    return this.#child.send(message, () => undefined);
  }

  onMessage(listener: (message: unknown) => void): void {
    this.#child.on("message", listener);
  }

  /** Whether it keeps the worker from exiting. */
  hold(on: boolean): void {
    const act = on ? "ref" : "unref";
    this.#child[act]();
    this.#child.channel?.[act]();
    for (const stream of this.#streams) stream[act]();
  }

  #neverStarted(error: Error): ProcessEnd {
    this.#exited = true;
    this.#owner.ended();
    return { code: null, signal: null, heardOut: true, problem: startFailure(this.#owner.program, error) };
  }

  async #wrapUp(code: number | null, signal: NodeJS.Signals | null): Promise<ProcessEnd> {
    this.#exited = true;
    // First the sweep: a helper that holds the output open would keep the pipes from ending.
    await this.#owner.sweep([...this.#marks], this.pid);
    await this.#drain();
    const heardOut = this.#drained();
    for (const stream of [this.#child.stdin, this.stdout, this.stderr]) stream?.destroy();
    if (this.#child.connected) this.#child.disconnect();
    this.#owner.ended();
    const overMemoryMb = this.#overMemoryMb;
    return { code, signal, heardOut, ...(overMemoryMb === undefined ? {} : { overMemoryMb }) };
  }

  /** Reads on until the pipes end. One that somebody beyond the sweep's reach holds open is let go when it is silent. */
  async #drain(): Promise<void> {
    const startedAt = performance.now();
    let seen = this.#bytesRead();
    let silentSince = startedAt;
    while (!this.#drained()) {
      await pause(LOOK_MS);
      // A timer may come due before the loop has looked at the pipes, when the loop was blocked: let it look first.
      await nextRound();
      const now = performance.now();
      const bytes = this.#bytesRead();
      if (bytes !== seen) silentSince = now;
      seen = bytes;
      if (now - silentSince >= SILENCE_MS || now - startedAt >= DRAIN_MAX_MS) return;
    }
  }

  #drained(): boolean {
    return !this.#child.connected && this.#streams.every((stream) => stream.readableEnded || stream.destroyed);
  }

  #bytesRead(): number {
    return this.#streams.reduce((sum, stream) => sum + stream.bytesRead, 0);
  }
}
