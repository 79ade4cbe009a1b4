/** How often a long silence is looked for, in ms: a turn may last for days, a timer for 24. */
const LOOK_MAX_MS = 60_000;

/** Watches that something is heard at least every `maxMs`. Without a `maxMs` it watches nothing. */
export class Silence {
  readonly #maxMs: number;
  readonly #onSilent: () => void;
  readonly #timer: NodeJS.Timeout | undefined;
  #heardAt = performance.now();
  #busy = 0;
  #fell = false;

  /** `onSilent` is called once, when nothing was heard for `maxMs`. */
  constructor(maxMs: number | undefined, onSilent: () => void) {
    this.#maxMs = maxMs ?? Infinity;
    this.#onSilent = onSilent;
    if (maxMs === undefined) return;
    this.#timer = setInterval(() => this.#look(), Math.min(LOOK_MAX_MS, Math.max(10, maxMs / 10)));
  }

  /** True once it has fallen. */
  get fell(): boolean {
    return this.#fell;
  }

  heard(): void {
    this.#heardAt = performance.now();
  }

  /** Something begins for which nobody is to speak: a tool, a wait for the store. Ends with {@link resume}. */
  pause(): void {
    this.#busy += 1;
  }

  resume(): void {
    this.#busy -= 1;
    this.heard();
  }

  end(): void {
    clearInterval(this.#timer);
  }

  #look(): void {
    if (this.#fell || this.#busy > 0 || performance.now() - this.#heardAt < this.#maxMs) return;
    this.#fell = true;
    this.end();
    this.#onSilent();
  }
}
