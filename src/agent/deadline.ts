import { TIMER_MAX_MS } from "../domain/limits.ts";

/** The time as the agent room uses it; tests put a clock of their own in its place. */
export interface Clock {
  /** Epoch ms: for instants that are stored. */
  readonly now: () => number;
  /** Ms that only go forward: for durations and deadlines, which a set clock must not move. */
  readonly monotonicMs: () => number;
  /** Acts once after `delayMs`, at most {@link TIMER_MAX_MS}; the answer calls it off. */
  readonly setTimer: (delayMs: number, act: () => void) => () => void;
}

/**
 * The machine's clock. Its timers keep the process alive: a deadline is what ends a turn whose
 * agent waits on nothing. Whoever sets one calls it off when the turn is over.
 */
export const systemClock: Clock = Object.freeze({
  now: () => Date.now(),
  monotonicMs: () => performance.now(),
  setTimer: (delayMs: number, act: () => void) => {
    const timer = setTimeout(act, delayMs);
    return () => clearTimeout(timer);
  },
});

/** Acts once after `delayMs`, however long that is, also `Infinity`; the answer calls it off. */
export function afterMs(clock: Clock, delayMs: number, act: () => void): () => void {
  let left = Math.max(0, delayMs);
  let callOff = (): void => undefined;
  const next = (): void => {
    const part = Math.min(left, TIMER_MAX_MS);
    left -= part;
    callOff = clock.setTimer(part, left > 0 ? next : act);
  };
  next();
  return () => callOff();
}

/** What {@link within} answers when the time was over first. */
export const TIME_OVER: unique symbol = Symbol("time over");

/** The promise's value, or {@link TIME_OVER} after `limitMs`; a rejection is passed on. A late one is ignored. */
export async function within<T>(clock: Clock, limitMs: number, promise: Promise<T>): Promise<T | typeof TIME_OVER> {
  return await new Promise<T | typeof TIME_OVER>((resolve, reject) => {
    const callOff = afterMs(clock, limitMs, () => resolve(TIME_OVER));
    promise.then(resolve, reject).finally(callOff);
  });
}
