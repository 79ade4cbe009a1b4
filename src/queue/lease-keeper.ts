import type { LaneLedger } from "../ledger/ledger.ts";
import { messageOf } from "../domain/error.ts";
import type { Log } from "../telemetry/log.ts";

interface Held {
  readonly turn: string;
  readonly attempt: number;
  readonly onLost: () => void;
  readonly onCancel: () => void;
  cancelled: boolean;
}

/** What may become of an attempt from outside while it is held; each is called at most once. */
export interface LeaseEvents {
  readonly onLost: () => void;
  /** Somebody has cancelled the turn. */
  readonly onCancel: () => void;
}

/**
 * Renews the leases of this worker's open attempts in one lane, at every interval of its settings, also when there are
 * none: other workers judge by the lane's last renewal whether Redis was away. Only an answer
 * loses a lease; silence aborts nothing. Tells its attempts of cancels, too.
 */
export class LeaseKeeper {
  readonly #ledger: LaneLedger;
  readonly #log: Log;
  readonly #held = new Map<string, Held>();
  #timer: NodeJS.Timeout | undefined;
  #stopped = false;
  #answeredMs = performance.now();
  #refusal: string | undefined;

  constructor(ledger: LaneLedger, log: Log) {
    this.#ledger = ledger;
    this.#log = log;
  }

  /** How long ago Redis last answered a renewal, in ms. */
  get silentMs(): number {
    return performance.now() - this.#answeredMs;
  }

  /** A longer silence means that Redis is away: others of the lane judge by the same time. */
  get patienceMs(): number {
    return this.#ledger.leases.maxGapMs;
  }

  /** The error that Redis answered the last renewal with, if it did. */
  get refusal(): string | undefined {
    return this.#refusal;
  }

  start(): void {
    this.#answeredMs = performance.now();
    this.#schedule();
  }

  /** Keeps the lease of an attempt until the answer is called. */
  hold(turn: string, attempt: number, { onLost, onCancel }: LeaseEvents): () => void {
    this.#held.set(turn, { turn, attempt, onLost, onCancel, cancelled: false });
    return () => {
      if (this.#held.get(turn)?.attempt === attempt) this.#held.delete(turn);
    };
  }

  /** The turn was cancelled: its attempt is told, if it is held here and was not told before. */
  cancelled(turn: string): void {
    const held = this.#held.get(turn);
    if (held === undefined || held.cancelled) return;
    held.cancelled = true;
    held.onCancel();
  }

  /** Asks at once what has become of the leases, beside the interval. */
  renewNow(): void {
    if (!this.#stopped) void this.#renew();
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
  }

  #schedule(): void {
    if (this.#stopped) return;
    this.#timer = setTimeout(
      () => void this.#renew().finally(() => this.#schedule()),
      this.#ledger.leases.renewEveryMs,
    );
    this.#timer.unref();
  }

  async #renew(): Promise<void> {
    try {
      const { lost, cancelled } = await this.#ledger.renew([...this.#held.values()]);
      this.#answeredMs = performance.now();
      this.#refusal = undefined;
      // A message may be lost: what was cancelled without one is named here.
      for (const { turn, attempt } of cancelled) if (this.#held.get(turn)?.attempt === attempt) this.cancelled(turn);
      for (const { turn, attempt } of lost) {
        const held = this.#held.get(turn);
        if (held?.attempt !== attempt) continue;
        this.#held.delete(turn);
        held.onLost();
      }
    } catch (error) {
      this.#refusal = error instanceof Error && error.name === "ReplyError" ? error.message : undefined;
      this.#log.debug({ lane: this.#ledger.lane, error: messageOf(error) }, "leases were not renewed");
    }
  }
}
