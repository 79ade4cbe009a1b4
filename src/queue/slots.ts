/** Gives a slot back; calling it twice gives back one. */
export type Release = () => void;

/** A process's concurrency over all its lanes: at most `size` holders, served in order. */
export class Slots {
  #free: number;
  #closed = false;
  readonly #waiting: ((slot: Release | undefined) => void)[] = [];

  constructor(size: number) {
    this.#free = size;
  }

  /** A slot that is free now, if nobody waits for it. */
  takeFree(): Release | undefined {
    if (this.#closed || this.#free === 0) return undefined;
    this.#free--;
    return this.#holder();
  }

  /** Resolves with a slot when there is one; with undefined once these slots are closed. */
  async take(): Promise<Release | undefined> {
    const free = this.takeFree();
    if (free !== undefined || this.#closed) return free;
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** Nobody gets a slot any more, nor waits for one. */
  close(): void {
    this.#closed = true;
    for (const resolve of this.#waiting.splice(0)) resolve(undefined);
  }

  #holder(): Release {
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      const next = this.#waiting.shift();
      if (next === undefined) this.#free++;
      else next(this.#holder());
    };
  }
}
