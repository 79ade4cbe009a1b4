import { setTimeout as sleep } from "node:timers/promises";
import { labelOf, type RedisProxy } from "../redis-proxy.ts";
import type { Fault } from "./plan.ts";
import type { RedisUnderFire } from "./redis-under-fire.ts";
import type { WorkerSlot } from "./worker-slot.ts";

/** How long a worker is waited for that runs turns, in ms: a fault of one that does nothing shows little. */
const IDLE_WAIT_MS = 15_000;

/** What faults happen to. */
export interface Stage {
  readonly redis: RedisUnderFire;
  readonly slots: readonly WorkerSlot[];
  /** One before each slot's worker, in their order, and the producer's. */
  readonly proxies: readonly RedisProxy[];
  readonly producerProxy: RedisProxy;
  readonly say: (text: string) => void;
}

/** Lets faults happen, each at its time. */
export class Faults {
  readonly #stage: Stage;
  #over = false;
  /** Connections cut, and replies lost. */
  cuts = 0;

  constructor(stage: Stage) {
    this.#stage = stage;
  }

  /** Resolves when all have happened and are over; replies that are never asked for are not awaited. */
  async run(faults: readonly Fault[]): Promise<void> {
    const startedAt = Date.now();
    await Promise.all(
      faults.map(async (fault) => {
        await sleep(Math.max(0, startedAt + fault.atMs - Date.now()));
        await this.#happen(fault);
      }),
    );
  }

  /** Replies that were to be lost and were not asked for come through from now on. */
  end(): void {
    this.#over = true;
  }

  async #happen(fault: Fault): Promise<void> {
    const { redis, say } = this.#stage;
    say(`fault: ${JSON.stringify(fault)}`);
    switch (fault.kind) {
      case "redis":
        return redis.killFor(fault.forMs);
      case "full":
        return redis.fullFor(fault.forMs);
      case "cut":
        return this.#cut(fault.worker);
      case "reply":
        return this.#loseReply(fault.worker, fault.call);
      case "hold":
        return this.#hold(fault.worker, fault.forMs);
      case "kill":
        return this.#hurt(fault, (slot) => slot.kill());
      case "terminate":
        return this.#hurt(fault, (slot) => slot.terminate());
      case "freeze":
        return this.#hurt(fault, (slot) => slot.freeze(fault.forMs));
      case "block":
        return this.#hurt(fault, (slot) => slot.block(fault.forMs));
    }
  }

  /** Something that happens to a worker process: to the one that is named, or the next one that runs turns. */
  async #hurt(
    { worker, kind }: { readonly worker: number; readonly kind: Fault["kind"] },
    hurt: (slot: WorkerSlot) => Promise<void> | void,
  ): Promise<void> {
    const slot = await this.#idleSlot(worker);
    if (slot === undefined) this.#stage.say(`no worker is up: ${kind} is left out`);
    else await hurt(slot);
  }

  async #idleSlot(from: number): Promise<WorkerSlot | undefined> {
    const { slots } = this.#stage;
    for (const givenUpAt = Date.now() + IDLE_WAIT_MS; Date.now() < givenUpAt; await sleep(50)) {
      const ordered = [...slots.slice(from), ...slots.slice(0, from)];
      const working = ordered.find((slot) => slot.idle && slot.running > 0);
      if (working !== undefined) return working;
    }
    return slots.find((slot) => slot.idle);
  }

  #cut(worker: number | undefined): void {
    const { proxies, producerProxy } = this.#stage;
    const meant = worker === undefined ? [...proxies, producerProxy] : proxies.slice(worker, worker + 1);
    for (const proxy of meant) proxy.cut();
    this.cuts += 1;
  }

  #loseReply(worker: number, call: string): void {
    const proxy = this.#stage.proxies[worker] ?? this.#stage.producerProxy;
    void proxy
      .cutReply((command) => !this.#over && labelOf(command) === call)
      .then(() => {
        this.cuts += 1;
        this.#stage.say(`the reply to ${call} was lost`);
      });
  }

  /** Nothing comes through, and nothing is closed. */
  async #hold(worker: number, ms: number): Promise<void> {
    const proxy = this.#stage.proxies[worker];
    proxy?.hold(true);
    await sleep(ms);
    proxy?.hold(false);
  }
}
