import type { Redis } from "ioredis";
import { cancelChannel } from "../ledger/keys.ts";
import { Subscriber } from "./subscriber.ts";
import type { Log } from "../telemetry/log.ts";

/** Hears of cancels in a worker's lanes, by one connection. A message that is lost is made up for by the next renewal of leases. */
export class CancelWatch {
  readonly #subscriber: Subscriber;
  readonly #told = new Map<string, (turn: string) => void>();

  /** The connection becomes the watch's own. */
  constructor(redis: Redis, log: Log) {
    this.#subscriber = new Subscriber(redis, log, (channel, turn) => this.#told.get(channel)?.(turn));
  }

  /** Has `told` called with the turns of a lane that are cancelled while they run. Not awaited: renewals tell them too. */
  listen(lane: string, told: (turn: string) => void): void {
    const channel = cancelChannel(lane);
    this.#told.set(channel, told);
    void this.#subscriber.listen(channel);
  }

  close(): void {
    this.#told.clear();
    this.#subscriber.close();
  }
}
