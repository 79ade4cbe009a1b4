import { setTimeout as sleep } from "node:timers/promises";
import { isTurnqError } from "../../src/domain/error.ts";
import type { TurnRequest } from "../../src/domain/turn-request.ts";
import type { TurnHandle } from "../../src/queue/turn-handle.ts";
import type { Turnq } from "../../src/turnq.ts";
import type { PlannedTurn } from "./plan.ts";

/** How many turns without a session are submitted at once. */
const FREE_STREAMS = 4;
const AGAIN_MS = 200;

/** Submits, cancels and retries what the plan says, again and again until it is answered. */
export class ChaosProducer {
  readonly #turnq: Turnq;
  readonly #truth: string;
  readonly #startedAt: number;
  readonly #cancels: Promise<void>[] = [];
  /** The turns that were accepted, as they were. */
  readonly accepted = new Map<string, PlannedTurn>();
  /** How often each was asked to be retried. */
  readonly retries = new Map<string, number>();
  /** What it was told that nobody should be told. */
  readonly faults: string[] = [];

  constructor(turnq: Turnq, truth: string) {
    this.#turnq = turnq;
    this.#truth = truth;
    this.#startedAt = Date.now();
  }

  /** Resolves when all turns are accepted and all cancels answered. */
  async submitAll(turns: readonly PlannedTurn[]): Promise<void> {
    const streams = new Map<string, PlannedTurn[]>();
    for (const [i, turn] of turns.entries()) {
      const stream = turn.session ?? `free ${i % FREE_STREAMS}`;
      streams.set(stream, [...(streams.get(stream) ?? []), turn]);
    }
    await Promise.all([...streams.values()].map((stream) => this.#submitInOrder(stream)));
    await Promise.all(this.#cancels);
  }

  async #submitInOrder(turns: readonly PlannedTurn[]): Promise<void> {
    for (const turn of turns) {
      await sleep(Math.max(0, this.#startedAt + turn.atMs - Date.now()));
      const request = requestOf(turn, this.#truth);
      const handle = await this.#asked(() => this.#turnq.submit(request));
      this.accepted.set(turn.id, turn);
      if (turn.twice === true) await this.#twice(request);
      if (turn.cancelAfterMs !== undefined) this.#cancels.push(this.#cancel(handle, turn.cancelAfterMs));
    }
  }

  async #twice(request: TurnRequest): Promise<void> {
    const { duplicate } = await this.#asked(() => this.#turnq.submit(request));
    if (!duplicate) this.faults.push(`turn ${request.id} was accepted twice, the second time as a new one`);
  }

  async #cancel(handle: TurnHandle, afterMs: number): Promise<void> {
    await sleep(afterMs);
    await this.#asked(() => handle.cancel({ reason: "the plan says so" }));
  }

  /** Opens a new generation of a settled turn. */
  async retry(turn: PlannedTurn): Promise<void> {
    await sleep(turn.retryAfterMs ?? 0);
    await this.#asked(() => {
      // What is not answered may have been done all the same.
      this.retries.set(turn.id, (this.retries.get(turn.id) ?? 0) + 1);
      return this.#turnq.retry({ id: turn.id, lane: turn.agent });
    });
  }

  /** Repeats a call while Redis is away or full, as its callers are told to. */
  async #asked<T>(call: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await call();
      } catch (error) {
        if (!isTurnqError(error, "redis_unreachable") && !isTurnqError(error, "redis_refused")) throw error;
        await sleep(AGAIN_MS);
      }
    }
  }
}

function requestOf(turn: PlannedTurn, truth: string): TurnRequest {
  const { id, agent, session, batch, priority, delayMs, timeoutMs, does } = turn;
  return {
    ...(batch === undefined ? { id } : { batch }),
    agent,
    input: `the input of ${id}`,
    session,
    priority,
    delayMs,
    limits: { timeoutMs: timeoutMs ?? 60_000, graceMs: 500 },
    retry: { backoff: { delayMs: 50, maxMs: 500 } },
    options: { ...does, truth },
  };
}
