import type { Redis } from "ioredis";
import { messageOf } from "../domain/error.ts";
import { cancelChannel } from "../ledger/keys.ts";
import type { Log } from "../telemetry/log.ts";

/** Hears of cancels in a worker's lanes, by one connection. A message that is lost is made up for by the next renewal of leases. */
export class CancelWatch {
  readonly #redis: Redis;
  readonly #log: Log;
  readonly #told = new Map<string, (turn: string) => void>();

  /** The connection becomes the watch's own. */
  constructor(redis: Redis, log: Log) {
    this.#redis = redis;
    this.#log = log;
    redis.on("message", (channel: string, turn: string) => this.#told.get(channel)?.(turn));
    redis.on("error", (error: Error) => log.debug({ error: error.message }, "cancels are not heard"));
  }

  /** Has `told` called with the turns of a lane that are cancelled while they run. Not awaited: renewals tell them too. */
  listen(lane: string, told: (turn: string) => void): void {
    const channel = cancelChannel(lane);
    this.#told.set(channel, told);
    this.#redis.subscribe(channel).catch((error: unknown) => {
      this.#log.debug({ lane, error: messageOf(error) }, "cancels of a lane are not heard at once");
    });
  }

  close(): void {
    this.#told.clear();
    this.#redis.disconnect();
  }
}
