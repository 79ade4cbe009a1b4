import { resolve } from "node:path";
import { entryPath } from "../../process/entry.ts";
import { markText } from "../../process/mark.ts";
import type { Processes } from "../../process/processes.ts";
import type { ModuleConfig } from "./module-config.ts";
import { Runner } from "./runner.ts";
import { heapMb } from "./runner-heap.ts";

export interface RunnerPoolOptions {
  readonly name: string;
  readonly lane: string;
  readonly module: ModuleConfig;
  readonly processes: Processes;
  /** The config's folder. */
  readonly baseDir: string;
  /** How long a runner is kept without work. */
  readonly idleMs?: number | undefined;
}

const IDLE_MS = 10_000;
/** How many runners are started for one turn when they die before they have it. */
const STARTS = 3;
/** How many runners this process has started. A runner's mark holds its number: what sweeps one must not kill another. */
let started = 0;

/** The longest mark that a runner can show. */
const TITLE_CHARS = 1100;

/**
 * The runners of one module: kept warm between turns, each for one turn at a time, so there are
 * never more than turns at once. An idle one keeps no worker from exiting and ends after a while.
 */
export class RunnerPool {
  readonly #options: RunnerPoolOptions;
  readonly #idle = new Map<Runner, NodeJS.Timeout>();
  readonly #all = new Set<Runner>();
  #closed = false;

  constructor(options: RunnerPoolOptions) {
    this.#options = options;
  }

  /** How many runners there are, and how many of them are idle. */
  get size(): { readonly all: number; readonly idle: number } {
    return { all: this.#all.size, idle: this.#idle.size };
  }

  /**
   * Gives `work` a runner. One that dies before it was handed its turn has run nothing of it and is replaced: the system
   * kills the idle ones first when memory is short. `isOver` says that nobody wants another one any more.
   */
  async use<T>(
    work: (runner: Runner) => Promise<T>,
    {
      memoryMb,
      isOver = () => false,
    }: { readonly memoryMb?: number | undefined; readonly isOver?: () => boolean } = {},
  ): Promise<T> {
    for (let starts = 0; ;) {
      const runner = this.take(memoryMb);
      if (!runner.loaded) starts += 1;
      try {
        return await work(runner);
      } catch (thrown) {
        if (!runner.diedBeforeTurn || starts >= STARTS || this.#closed || isOver()) throw thrown;
      } finally {
        // A runner that was killed is waited for, with all that it started.
        if (!runner.usable) runner.kill();
        if (!runner.usable) await runner.ended;
        this.giveBack(runner);
      }
    }
  }

  /** A runner for one turn that may hold so much memory, in MiB. @throws ProcessFailure when none can be started */
  take(memoryMb: number = this.#memoryMb): Runner {
    for (const runner of this.#idle.keys()) if (!runner.usable) this.#leaveIdle(runner);
    // The last that came back first: what is not needed ages and ends.
    const idle = [...this.#idle.keys()].toReversed();
    const fitting = idle.find((runner) => runner.memoryMb === memoryMb);
    // One more than turns at once would be one too many: it takes the place of one that does not fit.
    const leaving = fitting ?? idle.at(-1);
    if (leaving !== undefined) this.#leaveIdle(leaving);
    if (fitting === undefined) {
      leaving?.kill();
      return this.#start(memoryMb);
    }
    fitting.hold(true);
    return fitting;
  }

  /** What a runner may hold where the turn does not say it. */
  get #memoryMb(): number {
    const { module, processes } = this.#options;
    return module.limits?.maxMemoryMb ?? processes.memory.defaultMb;
  }

  #leaveIdle(runner: Runner): void {
    clearTimeout(this.#idle.get(runner));
    this.#idle.delete(runner);
  }

  /** To be called once for each that was taken. One that cannot be used again is killed. */
  giveBack(runner: Runner): void {
    if (!this.#all.has(runner)) return;
    if (!runner.usable) {
      runner.kill();
      return;
    }
    runner.hold(false);
    const timer = setTimeout(() => {
      this.#idle.delete(runner);
      runner.kill();
    }, this.#options.idleMs ?? IDLE_MS);
    this.#idle.set(runner, timer.unref());
  }

  /** Ends all runners; resolves when they are gone. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const timer of this.#idle.values()) clearTimeout(timer);
    this.#idle.clear();
    const all = [...this.#all];
    for (const runner of all) runner.kill();
    await Promise.all(all.map((runner) => runner.ended));
  }

  #start(memoryMb: number): Runner {
    const { name, lane, module, processes, baseDir } = this.#options;
    const env = processes.allowedEnv(module.env);
    const process = processes.spawn({
      // Room for the title in which it tells the turn that it runs.
      command: [
        globalThis.process.execPath,
        `--max-old-space-size=${heapMb(memoryMb)}`,
        entryPath("turn-runner"),
        "-".repeat(TITLE_CHARS),
      ],
      memoryMb,
      cwd: baseDir,
      env,
      // In the place of a turn, what no turn's id can be.
      mark: markText({ ...processes.place, lane, turn: `~${++started}`, attempt: 0 }),
      stdin: "ignore",
      ipc: true,
    });
    const path = resolve(baseDir, module.module);
    const runner = new Runner(
      process,
      {
        type: "load",
        name,
        module: module.module,
        path,
        export: module.export,
        config: module.config,
        metadata: module.metadata,
      },
      { env, memoryMb },
    );
    this.#all.add(runner);
    void runner.ended.then(() => {
      this.#all.delete(runner);
      clearTimeout(this.#idle.get(runner));
      this.#idle.delete(runner);
    });
    return runner;
  }
}
