import { killTree } from "./kill-tree.ts";

interface Order {
  readonly group: number | undefined;
  readonly marks: readonly string[];
  readonly swept: () => void;
}

/**
 * Sweeps after every attempt. A look at the whole machine costs a few milliseconds, so the sweeps
 * that are asked for in one round of the event loop share it.
 */
export class Sweeper {
  readonly #spared: () => readonly number[];
  #waiting: Order[] = [];

  constructor(spared: () => readonly number[]) {
    this.#spared = spared;
  }

  /** Resolves when nothing with exactly one of these marks, nothing of the group and nothing that descends from them is alive. */
  sweep(marks: readonly string[], group?: number): Promise<void> {
    return new Promise((resolve) => {
      if (this.#waiting.length === 0) setImmediate(() => void this.#run());
      this.#waiting.push({ group, marks, swept: resolve });
    });
  }

  async #run(): Promise<void> {
    const orders = this.#waiting;
    this.#waiting = [];
    const marks = new Set(orders.flatMap((order) => order.marks));
    const groups = orders.map((order) => order.group).filter((group) => group !== undefined);
    await killTree({ groups, marked: (mark) => marks.has(mark), spared: this.#spared() });
    for (const order of orders) order.swept();
  }
}
