import { setTimeout as sleep } from "node:timers/promises";

/** The signals that end a command in order; the second one, of whatever kind, forces. */
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
export type EndSignal = (typeof SIGNALS)[number];

/** How long what is forced may take before the process ends, in ms. */
const FORCE_MS = 800;
/** A signal that comes so soon after the first is the same Ctrl-C: npm hands on what the terminal sends as well. */
const SAME_WITHIN_MS = 300;

/** Where signals come from: a process. */
export interface SignalSource {
  on(name: EndSignal, listener: (name: EndSignal) => void): unknown;
  off(name: EndSignal, listener: (name: EndSignal) => void): unknown;
}

/** What a person's Ctrl-C, or a supervisor's SIGTERM, means for a command that runs. */
export class Interruption {
  readonly #source: SignalSource;
  readonly #exit: (code: number) => void;
  readonly #now: () => number;
  readonly #stop = new AbortController();
  readonly #listener = (name: EndSignal): void => this.#onSignal(name);
  #name: EndSignal | undefined;
  #firstAt = 0;
  #force: () => Promise<void> = () => Promise.resolve();

  /** `exit` ends the process at once. */
  constructor(source: SignalSource, exit: (code: number) => void, now: () => number = Date.now) {
    this.#source = source;
    this.#exit = exit;
    this.#now = now;
    for (const name of SIGNALS) source.on(name, this.#listener);
  }

  /** Aborted by the first signal. */
  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  /** The first signal. */
  get name(): EndSignal | undefined {
    return this.#name;
  }

  /** What a second signal has done at once, before the process ends. */
  onForce(force: () => Promise<void>): void {
    this.#force = force;
  }

  /** Signals do again what they do by themselves. */
  end(): void {
    for (const name of SIGNALS) this.#source.off(name, this.#listener);
  }

  #onSignal(name: EndSignal): void {
    if (this.#name === undefined) {
      this.#name = name;
      this.#firstAt = this.#now();
      this.#stop.abort();
      return;
    }
    if (this.#now() - this.#firstAt < SAME_WITHIN_MS) return;
    const forced = this.#force().catch(() => undefined);
    void Promise.race([forced, sleep(FORCE_MS)]).then(() => this.#exit(130));
  }
}
