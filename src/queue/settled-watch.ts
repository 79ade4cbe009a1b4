import { setTimeout as sleep } from "node:timers/promises";
import type { Redis } from "ioredis";
import { settledChannel } from "../ledger/keys.ts";
import { Subscriber } from "./subscriber.ts";
import type { Log } from "../telemetry/log.ts";

/** How long a waiter trusts that a message will come, in ms: one can be lost, so it looks by itself as often. */
const LOOK_EVERY_MS = 1000;

/** Tells waiters in this process of settled turns. One subscribed connection, opened with the first waiter. */
export class SettledWatch {
  #closed = false;
  readonly #connect: () => Redis;
  readonly #log: Log;
  readonly #waiting = new Map<string, Set<() => void>>();
  readonly #lanes = new Map<string, Promise<unknown>>();
  #subscriber: Subscriber | undefined;

  /** `connect` opens a connection of the watch's own, which it then owns. */
  constructor(connect: () => Redis, log: Log) {
    this.#connect = connect;
    this.#log = log;
  }

  /** Has the lane listened to. Failing or taking long is no error: waiters look by themselves too. */
  async listen(lane: string): Promise<void> {
    let listening = this.#lanes.get(lane);
    if (listening === undefined) {
      this.#subscriber ??= new Subscriber(this.#connect(), this.#log, (_channel, turn) => this.#wake(turn));
      listening = this.#subscriber.listen(settledChannel(lane));
      this.#lanes.set(lane, listening);
    }
    await Promise.race([listening, sleep(LOOK_EVERY_MS, undefined, { ref: false })]);
  }

  #wake(turn: string): void {
    for (const resolve of this.#waiting.get(turn) ?? []) resolve();
  }

  /** Resolves when the turn is announced, when it is time to look, or after `atMostMs`. */
  async wait(turn: string, atMostMs: number, signal?: AbortSignal): Promise<void> {
    const waiters = this.#waiting.get(turn) ?? new Set();
    this.#waiting.set(turn, waiters);
    await new Promise<void>((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", done);
        waiters.delete(done);
        if (waiters.size === 0) this.#waiting.delete(turn);
        resolve();
      };
      const timer = setTimeout(done, Math.max(0, Math.min(LOOK_EVERY_MS, atMostMs)));
      waiters.add(done);
      signal?.addEventListener("abort", done);
    });
  }

  /** True once it was closed: then its turnq was. */
  get closed(): boolean {
    return this.#closed;
  }

  close(): void {
    this.#closed = true;
    this.#subscriber?.close();
    for (const waiters of this.#waiting.values()) for (const resolve of waiters) resolve();
  }
}
