import type { Redis } from "ioredis";
import { TurnqError } from "./domain/error.ts";
import type { Readiness } from "./queue/readiness.ts";
import { hasEnded, type CloseOptions, type CloseReport, type TurnWorker } from "./queue/worker.ts";

/** A worker and the connection that is its own. */
export interface OpenWorker {
  readonly inner: TurnWorker;
  readonly redis: Redis;
}

/** A worker of this process. Start and close may be called more than once. */
export class WorkerHandle {
  readonly #open: () => Promise<OpenWorker>;
  #opened: Promise<OpenWorker> | undefined;
  #started: OpenWorker | undefined;
  #closed: Promise<CloseReport> | undefined;

  /** @internal */
  constructor(open: () => Promise<OpenWorker>) {
    this.#open = open;
  }

  /** Takes turns from now on. Throws `redis_unreachable`, `config`, `closed`; after the first two it may be called again. */
  async start(): Promise<void> {
    this.#checkOpen();
    const open = await (this.#opened ??= this.#openOnce());
    this.#checkOpen();
    await open.inner.start();
    this.#started = open;
  }

  async #openOnce(): Promise<OpenWorker> {
    try {
      return await this.#open();
    } catch (error) {
      this.#opened = undefined;
      throw error;
    }
  }

  #checkOpen(): void {
    if (this.#closed !== undefined) throw new TurnqError("closed", "the worker has been closed");
  }

  /**
   * Takes no more, stops what runs, hands it back; ends within `limitMs`, 25 s unless given, `Infinity` for no limit.
   * Throws `config` for a limit that is none.
   */
  async close(options: Partial<CloseOptions> = {}): Promise<CloseReport> {
    const { limitMs = 25_000 } = options;
    if (!(limitMs >= 0))
      throw new TurnqError("config", "limitMs must be a number of ms, 0 or more", { where: "close" });
    this.#closed ??= this.#close(limitMs, options.onPhase);
    return this.#closed;
  }

  async #close(limitMs: number, onPhase: CloseOptions["onPhase"]): Promise<CloseReport> {
    const startedMs = performance.now();
    let open: OpenWorker | undefined;
    const opening = (this.#opened ?? Promise.resolve(undefined)).then(
      (found) => (open = found),
      () => undefined, // whoever called `start` knows; there is nothing to close
    );
    if (!(await hasEnded(opening, limitMs))) {
      void opening.then((late) => (late === undefined ? undefined : closeOpen(late, { limitMs: 0 })));
      return { complete: false, abandoned: 0, turns: [] };
    }
    if (open === undefined) return { complete: true, abandoned: 0, turns: [] };
    return await closeOpen(open, { limitMs: Math.max(0, limitMs - (performance.now() - startedMs)), onPhase });
  }

  /** Whether it takes turns now, and if not, why. Cheap, never throws, asks nothing of Redis: made for a health check. */
  readiness(): Readiness {
    if (this.#closed !== undefined)
      return { ready: false, reason: "closing", message: "the worker takes no more turns" };
    return (
      this.#started?.inner.readiness() ?? { ready: false, reason: "not_started", message: "the worker was not started" }
    );
  }

  /** Whether it takes turns of this agent in this lane now. */
  serves(agent: string, lane: string): boolean {
    return this.#closed === undefined && this.#started?.inner.serves(agent, lane) === true;
  }

  /** Attempts that run here now. */
  get running(): number {
    return this.#started?.inner.running ?? 0;
  }

  /** The earliest hard deadline of the attempts that run here, epoch ms; undefined when none does. */
  get deadlineAt(): number | undefined {
    return this.#started?.inner.deadlineAt;
  }

  /** Kills what runs at once; `close` then ends soon. */
  async force(): Promise<void> {
    const open = await this.#opened?.catch(() => undefined);
    open?.inner.force();
  }
}

async function closeOpen({ inner, redis }: OpenWorker, options: CloseOptions): Promise<CloseReport> {
  try {
    return await inner.close(options);
  } finally {
    redis.disconnect();
  }
}
