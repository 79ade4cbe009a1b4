import type { Redis } from "ioredis";
import { messageOf } from "../domain/error.ts";
import type { Log } from "../telemetry/log.ts";

/**
 * A connection that listens on channels, which it owns. Messages may be lost: who waits for one looks by itself too, so
 * that no failure of a subscription is anybody's error.
 */
export class Subscriber {
  readonly #redis: Redis;
  readonly #log: Log;
  readonly #channels = new Set<string>();

  constructor(redis: Redis, log: Log, onMessage: (channel: string, message: string) => void) {
    this.#redis = redis;
    this.#log = log;
    redis.on("message", onMessage);
    redis.on("error", (error: Error) => log.debug({ error: error.message }, "a channel is not heard"));
    // ioredis itself subscribes anew after a reconnect, and leaves a failure of that to nobody: a process would end by an
    // unhandled rejection when Redis is cut off again, or the connection closed, just then (event_handler.js of 6.0.0).
    if (redis.isCluster) return;
    redis.options.autoResubscribe = false;
    redis.on("ready", () => void this.#subscribe([...this.#channels]));
  }

  /** Resolves when the channel is listened to, or that has failed. */
  async listen(channel: string): Promise<void> {
    this.#channels.add(channel);
    await this.#subscribe([channel]);
  }

  close(): void {
    this.#channels.clear();
    this.#redis.disconnect();
  }

  async #subscribe(channels: readonly string[]): Promise<void> {
    if (channels.length === 0) return;
    try {
      await this.#redis.subscribe(...channels);
    } catch (error) {
      this.#log.debug({ channels, error: messageOf(error) }, "channels are not heard");
    }
  }
}
