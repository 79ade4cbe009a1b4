import type { Log } from "../telemetry/log.ts";

const LOOK_EVERY_MS = 500;
/** How late the loop must be to be called blocked, in ms. */
const BLOCKED_AFTER_MS = 2000;

/**
 * Reports `worker_blocked` when the event loop stood still: agents that run in it could not be ended at their deadlines
 * meanwhile. It is told afterwards, for a blocked loop can tell nothing. The answer ends it.
 */
export function reportLag(log: Log): () => void {
  let seenMs = performance.now();
  const timer = setInterval(() => {
    const blockedMs = Math.round(performance.now() - seenMs - LOOK_EVERY_MS);
    seenMs = performance.now();
    if (blockedMs < BLOCKED_AFTER_MS) return;
    log.error(
      { code: "worker_blocked", blockedMs },
      "the event loop was blocked: an agent that may block belongs into a module or a command",
    );
  }, LOOK_EVERY_MS);
  timer.unref();
  return () => clearInterval(timer);
}
