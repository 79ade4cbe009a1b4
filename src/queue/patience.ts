import { setTimeout as sleep } from "node:timers/promises";
import { messageOf } from "../domain/error.ts";
import type { Log } from "../telemetry/log.ts";

/** Replies and faults that pass by themselves: Redis loads, fails over, is full or out of reach. */
const PASSING =
  /^(LOADING|READONLY|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|OOM|MISCONF|NOREPLICAS|BUSY|UNBLOCKED)|Connection is closed|ECONN|EPIPE|ETIMEDOUT/;
const WAIT_MS = 500;
const LOG_EVERY_MS = 10_000;
/** How often something is tried that fails for another reason: then it is our own fault. */
const OTHER_TRIES = 5;

/**
 * Repeats a call to the ledger until it is answered: paid work is not given up because Redis is
 * away. Throws only what does not pass by itself, or when `given_up` is aborted.
 */
export async function untilAnswered<T>(call: () => Promise<T>, log: Log, givenUp?: AbortSignal): Promise<T> {
  let loggedMs = -LOG_EVERY_MS;
  for (let other = 0; ;) {
    try {
      return await call();
    } catch (error) {
      const message = messageOf(error);
      if (!PASSING.test(message) && ++other >= OTHER_TRIES) throw error;
      if (givenUp?.aborted === true) throw error;
      if (performance.now() - loggedMs > LOG_EVERY_MS) {
        loggedMs = performance.now();
        log.warn({ error: message }, "Redis does not answer; the call is repeated");
      }
      await sleep(WAIT_MS);
    }
  }
}
