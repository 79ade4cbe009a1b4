import { AsyncLocalStorage } from "node:async_hooks";
import type { Door, Point } from "../../src/pause/effect.ts";

/** Who makes calls: a delivery of a worker, a producer, somebody who cancels. */
export interface Actor {
  readonly name: string;
  /** The worker that it is a part of: it dies and freezes with it. */
  readonly worker?: string | undefined;
}

/** An actor that stands before a change, or just after one, and goes on when it is let. */
export interface Stop {
  readonly actor: Actor;
  readonly at: string;
  readonly go: () => void;
}

/** Doors that change no turn, or that every worker goes through all the time: nobody is stopped there. */
const OPEN_DOORS: ReadonlySet<Door> = new Set([
  "script:renew",
  "script:guard",
  "script:upkeep",
  "script:phase",
  "bull:progress",
  "bull:trim",
  "bull:meta",
  "bull:stalled",
  "bull:locks",
]);

/**
 * Runs actors one change at a time: each is stopped before and after every door, and whoever holds
 * the schedule says who goes on. One that is never let on any more is a process that was killed.
 */
export class Schedule {
  readonly #actors = new AsyncLocalStorage<Actor>();
  #stops: Stop[] = [];
  readonly #dead = new Set<string>();
  /** The first thing that an actor threw that nothing of ours throws. */
  fault: unknown;

  get stops(): readonly Stop[] {
    return this.#stops;
  }

  get current(): Actor | undefined {
    return this.#actors.getStore();
  }

  /** Lets an actor run until its first stop. */
  start(actor: Actor, work: () => Promise<unknown>): void {
    this.#actors.run(actor, () => void work().catch((error: unknown) => (this.fault ??= error)));
  }

  /** The probe of `src/pause`. */
  readonly probe = (point: Point): Promise<void> | void => {
    const door = point.slice(point.indexOf(":") + 1) as Door;
    if (OPEN_DOORS.has(door)) return this.isDead(this.current) ? new Promise(() => undefined) : undefined;
    return this.stop(point);
  };

  /** Has the current actor wait here until it is let on. */
  stop(at: string): Promise<void> | void {
    const actor = this.current;
    if (actor === undefined) return undefined;
    if (this.isDead(actor)) return new Promise(() => undefined);
    return new Promise((resolve) => this.#stops.push({ actor, at, go: resolve }));
  }

  isDead(actor: Actor | undefined): boolean {
    return actor?.worker !== undefined && this.#dead.has(actor.worker);
  }

  /** A worker that is killed makes no call any more. */
  kill(worker: string): void {
    this.#dead.add(worker);
    this.#stops = this.#stops.filter(({ actor }) => actor.worker !== worker);
  }

  /** Node looks at every storage that is in use whenever a promise is made: with thousands of old ones it is at nothing else. */
  end(): void {
    this.#actors.disable();
  }

  /** Lets one of those on that may. */
  go(stop: Stop): void {
    this.#stops = this.#stops.filter((other) => other !== stop);
    stop.go();
  }

  /** Binds a callback to the actor that made it: timers fire in nobody's name. */
  bound<T extends (...args: never[]) => unknown>(callback: T): T {
    const actor = this.current;
    return actor === undefined
      ? callback
      : (((...args: never[]) => this.#actors.run(actor, () => callback(...args))) as T);
  }
}
