import { systemClock, type Clock } from "../agent/deadline.ts";
import type { Log } from "../telemetry/log.ts";

/** How often it is looked, in ms. */
export const LOOK_EVERY_MS = 500;
/** How late the loop must be to be called blocked, in ms. */
const BLOCKED_AFTER_MS = 2000;
/** By how much the machine's time must differ from what has passed to be called set, in ms. */
const JUMPED_BY_MS = 2000;

export interface LagOptions {
  /** Called after a jump of the machine's time, also by a sleep of the machine. Must not throw. */
  readonly onJump?: (() => void) | undefined;
  readonly clock?: Clock | undefined;
}

/**
 * Reports `worker_blocked` when the event loop stood still: agents that run in it could not be ended at their deadlines
 * meanwhile. It is told afterwards, for a blocked loop can tell nothing. Reports `clock_jumped`, once for each jump, when the
 * machine's time was set, or went on while the machine slept: no deadline and no lease is counted by that time, but leases
 * may have ended in the meantime. The answer ends it.
 */
export function reportLag(log: Log, options: LagOptions = {}): () => void {
  const timer = setInterval(lagLook(log, options), LOOK_EVERY_MS);
  timer.unref();
  return () => clearInterval(timer);
}

/** One look, to be called again and again, {@link LOOK_EVERY_MS} after the one before. */
export function lagLook(log: Log, { onJump, clock = systemClock }: LagOptions = {}): () => void {
  let seenMs = clock.monotonicMs();
  let seenAt = clock.now();
  return () => {
    const passedMs = clock.monotonicMs() - seenMs;
    const jumpedMs = Math.round(clock.now() - seenAt - passedMs);
    seenMs += passedMs;
    seenAt += passedMs + jumpedMs;
    if (Math.abs(jumpedMs) >= JUMPED_BY_MS) {
      log.warn(
        { code: "clock_jumped", jumpedMs },
        "the machine's time jumped: it was set, or the machine slept; leases are asked for anew",
      );
      onJump?.();
    }
    const blockedMs = Math.round(passedMs - LOOK_EVERY_MS);
    if (blockedMs < BLOCKED_AFTER_MS) return;
    log.error(
      { code: "worker_blocked", blockedMs },
      "the event loop was blocked: an agent that may block belongs into a module or a command",
    );
  };
}
