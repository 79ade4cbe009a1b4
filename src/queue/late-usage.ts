import { messageOf } from "../domain/error.ts";
import { addUsage, exceedingUsage, type Usage } from "../domain/usage.ts";
import type { OpenAttempt } from "../ledger/ledger.ts";
import { untilAnswered } from "./patience.ts";
import type { LaneContext, WorkerContext } from "./worker-context.ts";

/** What it takes to book what an attempt that is closed has spent. */
interface Booking extends Pick<LaneContext, "ledger"> {
  readonly worker: Pick<WorkerContext, "log" | "givenUp">;
}

/**
 * Books what an attempt that is closed has used beyond what is booked for it, and answers that. Repeats itself until
 * nothing is beyond it: another worker may book for the same attempt.
 */
export async function bookLate(
  { ledger, worker }: Booking,
  { turn, attempt }: OpenAttempt,
  usage: Usage,
): Promise<Usage | undefined> {
  const asked = <T>(call: () => Promise<T>): Promise<T> => untilAnswered(call, worker.log, worker.givenUp);
  for (;;) {
    const facts = await asked(() => ledger.facts(turn));
    const closed = facts.attempts.find((one) => one.attempt === attempt);
    if (closed === undefined) return undefined;
    const booked = closed.late === undefined ? closed.usage : addUsage(closed.usage, closed.late);
    const more = exceedingUsage(usage, booked);
    if (more === undefined) return undefined;
    const late = { turn, attempt, rev: facts.rev, before: closed.late, more };
    if (await asked(() => ledger.bookLate(late))) return more;
  }
}

/** What one attempt says of its usage after its end: a stream may tell it when the text is already the answer. */
export class LateUsage {
  readonly #lane: Booking;
  readonly #attempt: OpenAttempt;
  readonly #onBooked: (more: Usage) => void;
  #told: Usage | undefined;
  #stored = false;
  #booking = false;

  /** `onBooked` is told what each booking added, and must not throw. */
  constructor(lane: Booking, attempt: OpenAttempt, onBooked: (more: Usage) => void) {
    this.#lane = lane;
    this.#attempt = attempt;
    this.#onBooked = onBooked;
  }

  /** Takes a cumulative report. */
  take(usage: Usage): void {
    this.#told = usage;
    if (this.#stored) void this.#book();
  }

  /** The attempt is in the ledger: there is something to book beside. */
  attemptStored(): void {
    this.#stored = true;
    if (this.#told !== undefined) void this.#book();
  }

  /** One booking at a time: what is told meanwhile is in the next one. */
  async #book(): Promise<void> {
    if (this.#booking) return;
    this.#booking = true;
    const { log } = this.#lane.worker;
    try {
      for (let usage = this.#next(); usage !== undefined; usage = this.#next()) {
        const late = await bookLate(this.#lane, this.#attempt, usage);
        if (late === undefined) continue;
        log.info({ ...this.#attempt, late }, "usage that was told late is booked");
        this.#onBooked(late);
      }
    } catch (error) {
      log.error({ ...this.#attempt, error: messageOf(error) }, "usage that was told late is not booked");
    } finally {
      this.#booking = false;
    }
  }

  #next(): Usage | undefined {
    const told = this.#told;
    this.#told = undefined;
    return told;
  }
}
