import type { BackendFactory } from "bullmq";
import { finishingBackend } from "./backend.ts";
import type { Release, Slots } from "./slots.ts";

type Backend = ReturnType<typeof finishingBackend>;
type Fetched = Awaited<ReturnType<Backend["moveToActive"]>>;

/** The ways in which a job leaves what BullMQ counts as active. */
const MOVES = ["moveToCompleted", "moveToFailed", "moveToDelayed", "moveJobFromActiveToWait"] as const;

/** What a lane tells its worker. Neither may throw. */
export interface SlottedEvents {
  /** A job may wait here for which there is no slot: another worker may have one. */
  readonly onFull: () => void;
  /** A job of this worker is active no more, and its move brought no next one along. */
  readonly onMoved: () => void;
}

/** What BullMQ reads as "no job now, look again". */
const NOTHING = [undefined, undefined, 0, 0] as unknown as Fetched;

/**
 * Has one lane of a worker fetch only jobs for which its process has a slot. BullMQ's concurrency is per lane
 * and at least 1: with several lanes it would hold jobs, locked, that wait for another lane's turn to end.
 */
export class SlottedLane {
  readonly #slots: Slots;
  readonly #events: SlottedEvents;
  /** Slots of jobs that were fetched and not processed yet, by lock token. */
  readonly #fetched = new Map<string, Release>();
  /** Tokens of jobs that are being processed, or have just been moved back. */
  readonly #used = new Set<string>();

  constructor(slots: Slots, events: SlottedEvents) {
    this.#slots = slots;
    this.#events = events;
  }

  readonly backend: BackendFactory<Backend> = (name, options, connections) => {
    const backend = finishingBackend(name, options, connections);
    const fetch = backend.moveToActive.bind(backend);
    backend.moveToActive = (token, worker) => this.#fetch(token, () => fetch(token, worker));
    // A finish brings no next job along: the slot that it leaves is due to whoever has waited longest.
    const completed = backend.moveToCompletedArgs.bind(backend);
    backend.moveToCompletedArgs = (job, value, remove, token) => {
      this.#used.delete(token);
      return completed(job, value, remove, token, false);
    };
    const failed = backend.moveToFailed.bind(backend);
    backend.moveToFailed = (job, reason, remove, token, _fetchNext, fields) => {
      this.#used.delete(token);
      return failed(job, reason, remove, token, false, fields);
    };
    for (const move of MOVES) this.#tellOf(backend, move);
    return backend;
  };

  #tellOf(backend: Backend, move: (typeof MOVES)[number]): void {
    const call = Reflect.get(backend, move) as (...args: unknown[]) => Promise<unknown>;
    Reflect.set(backend, move, async (...args: unknown[]) => {
      const answer = await call.apply(backend, args);
      this.#events.onMoved();
      return answer;
    });
  }

  /** The slot that a job was fetched for. */
  async claim(token: string): Promise<Release | undefined> {
    const slot = this.#fetched.get(token);
    this.#fetched.delete(token);
    return slot ?? (await this.#slots.take());
  }

  async #fetch(token: string, fetch: () => Promise<Fetched>): Promise<Fetched> {
    // BullMQ asks once more with the token of a job that was just moved back. Only its loop may fetch, which has
    // a token of its own each time: while it waits here nobody would take up what another one has fetched.
    if (this.#used.delete(token)) return NOTHING;
    const slot = this.#slots.takeFree() ?? (await this.#wait());
    if (slot === undefined) return NOTHING;
    let got = false;
    try {
      const fetched = await fetch();
      got = fetched[0] !== undefined && fetched[0] !== null;
      if (got) this.#keep(token, slot);
      return fetched;
    } finally {
      if (!got) slot();
    }
  }

  #keep(token: string, slot: Release): void {
    this.#used.add(token);
    this.#fetched.set(token, slot);
  }

  async #wait(): Promise<Release | undefined> {
    this.#events.onFull();
    // BullMQ's loop fetches as many as it may before it has the first one processed: it must not wait with one in hand.
    return this.#fetched.size > 0 ? undefined : this.#slots.take();
  }
}
