import type { Redis } from "ioredis";
import type { Actor, Schedule } from "./schedule.ts";

type Call = (...args: unknown[]) => Promise<unknown>;

/** What comes back from Redis: counts the calls, and loses replies on demand. */
export class Replies {
  readonly #redis: Redis;
  readonly #schedule: () => Schedule;
  readonly #lost = new WeakSet<Actor>();
  /** Commands that were sent so far, and those that are not answered. */
  calls = 0;
  open = 0;

  constructor(redis: Redis, schedule: () => Schedule) {
    this.#redis = redis;
    this.#schedule = schedule;
    const send = redis.sendCommand.bind(redis);
    redis.sendCommand = (command, ...rest) => {
      this.calls += 1;
      this.open += 1;
      // A blocking command that nobody waits for does not happen here.
      void command.promise.catch(() => undefined).finally(() => (this.open -= 1));
      return send(command, ...rest);
    };
  }

  /** From now on the scripts of this connection, ours and BullMQ's, go through here. To be called when all are defined. */
  takeOver(): void {
    const scripts = Object.keys(Reflect.get(this.#redis, "scriptsSet") as object);
    for (const name of scripts) {
      for (const suffix of ["", "Buffer"]) {
        const once = Reflect.get(this.#redis, `${name}${suffix}`) as Call | undefined;
        if (once === undefined) continue;
        const lossy = (call: () => Promise<unknown>): Promise<unknown> => this.#call(call);
        const redis = this.#redis;
        // A pipeline takes over the commands of its connection: there nothing is awaited one by one.
        Reflect.set(redis, `${name}${suffix}`, function (this: unknown, ...args: unknown[]): Promise<unknown> {
          return this === redis ? lossy(() => once.apply(redis, args)) : once.apply(this, args);
        });
      }
    }
  }

  /** The reply to the next call of this actor is lost: ioredis sends it again when it is connected again. */
  lose(actor: Actor): void {
    this.#lost.add(actor);
  }

  async #call(call: () => Promise<unknown>): Promise<unknown> {
    const answer = await call();
    const schedule = this.#schedule();
    const actor = schedule.current;
    if (actor === undefined || !this.#lost.delete(actor)) return answer;
    await schedule.stop("resend");
    return call();
  }
}
