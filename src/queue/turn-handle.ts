import { setTimeout as sleep } from "node:timers/promises";
import { TurnqError, isTurnqError } from "../domain/error.ts";
import type { TurnEvent } from "../domain/turn-event.ts";
import type { TurnResult } from "../domain/turn-result.ts";
import type { StoredRequest } from "../domain/turn-request.ts";
import type { TurnRecord } from "../domain/turn-record.ts";
import type { ClosedAttempt, EventPage, LaneLedger, OpenedAttempt, TurnRow } from "../ledger/ledger.ts";
import { cancelTurn, type Cancelled, type CancelOptions } from "./cancel.ts";
import type { Unserved } from "./served-agents.ts";
import type { SettledWatch } from "./settled-watch.ts";

/** How often the events of a running turn are looked for, in ms. */
const EVENTS_EVERY_MS = 100;

/** Thrown by {@link TurnHandle.result} when `waitMs` is over; the turn goes on. */
export class WaitTimeoutError extends TurnqError {
  override readonly name = "WaitTimeoutError";
  constructor(turn: string, waitMs: number) {
    super("wait_timeout", `the turn is not settled after ${waitMs} ms`, {
      where: `turn ${turn}`,
      hint: "It goes on; ask again.",
    });
  }
}

export interface ResultOptions {
  /** Which generation's Result; the newest one's unless given. */
  readonly generation?: number | undefined;
  /** How long to wait for the turn to settle; for ever unless given. */
  readonly waitMs?: number | undefined;
}

export interface EventsOptions {
  /** Seq of the last event that is known; events after it follow. 0, the start, unless given. */
  readonly after?: number | undefined;
  /** False: ends with the last event that is there. */
  readonly follow?: boolean | undefined;
  /** Ends the iteration. */
  readonly signal?: AbortSignal | undefined;
}

/** One turn, from any process. Every method also throws `redis_unreachable` and `redis_refused`. */
export class TurnHandle {
  readonly id: string;
  readonly lane: string;
  /** A turn with this id and content was there before the submit. */
  readonly duplicate: boolean;
  /** Set by a submit when no worker that was up then takes such turns: it is stored, and waits for one. */
  readonly unserved: Unserved | undefined;
  readonly #ledger: LaneLedger;
  readonly #watch: SettledWatch;
  readonly #errorOf: (error: unknown) => unknown;

  /**
   * `errorOf` makes of a fault of Redis what callers of turnq are thrown.
   * @internal
   */
  constructor(
    ledger: LaneLedger,
    watch: SettledWatch,
    id: string,
    duplicate: boolean,
    errorOf: (error: unknown) => unknown = (error) => error,
    unserved?: Unserved,
  ) {
    this.id = id;
    this.lane = ledger.lane;
    this.duplicate = duplicate;
    this.unserved = unserved;
    this.#ledger = ledger;
    this.#watch = watch;
    this.#errorOf = errorOf;
  }

  async #ask<T>(call: (ledger: LaneLedger) => Promise<T>): Promise<T> {
    try {
      return await call(this.#ledger);
    } catch (error) {
      throw this.#errorOf(error);
    }
  }

  /**
   * Ends the turn: at once when nobody runs it, also where no worker is up, else its attempt is told
   * to stop and killed after its grace. Twice is as once; a settled turn stays as it is. Throws `not_found`.
   */
  async cancel(options: CancelOptions = {}): Promise<Cancelled> {
    return this.#ask((ledger) => cancelTurn(ledger, this.id, options));
  }

  /** Where the turn is. Throws `not_found`. */
  async row(): Promise<TurnRow> {
    const row = await this.#ask((ledger) => ledger.row(this.id));
    if (row === undefined) throw new TurnqError("not_found", "there is no such turn", { where: `turn ${this.id}` });
    return row;
  }

  /** What was asked, as it is stored. Throws `not_found`. */
  async request(): Promise<StoredRequest> {
    return (await this.#ask((ledger) => ledger.facts(this.id))).request;
  }

  /** The attempts that have ended, over all generations, in order. Throws `not_found`. */
  async attempts(): Promise<readonly ClosedAttempt[]> {
    return (await this.#ask((ledger) => ledger.facts(this.id))).attempts;
  }

  /** The account of an attempt that has ended, a crashed one too; undefined while it runs. */
  async record(attempt: number): Promise<TurnRecord | undefined> {
    return (await this.#ask((ledger) => ledger.attempt(this.id, attempt)))?.record;
  }

  /** The attempt that runs now; undefined when none does. Throws `not_found`. */
  async running(): Promise<(OpenedAttempt & { readonly attempt: number }) | undefined> {
    const row = await this.row();
    if (row.state !== "running" && row.state !== "stopping") return undefined;
    const opened = await this.#ask((ledger) => ledger.opened(this.id, row.attempt));
    return opened === undefined ? undefined : { ...opened, attempt: row.attempt };
  }

  /**
   * The turn's Result, once it is settled; `ok: false` is a value, not an error. An earlier
   * generation's Result stays readable. Waits for ever without `waitMs`, also through an outage of
   * Redis; throws {@link WaitTimeoutError} after it, or `redis_unreachable` when Redis is away then;
   * `not_found` when there is no such turn or generation; `closed`.
   */
  async result(options: ResultOptions = {}): Promise<TurnResult> {
    const until = options.waitMs === undefined ? Number.POSITIVE_INFINITY : performance.now() + options.waitMs;
    await this.#watch.listen(this.lane);
    for (;;) {
      const left = until - performance.now();
      const over = new AbortController();
      // Listened to before the row is read: what settles in between is announced to this waiter.
      const announced = this.#watch.wait(this.id, left, over.signal);
      try {
        const result = await this.#outlast(() => this.#settled(options.generation), left);
        if (result !== undefined) return result;
        if (left <= 0) throw new WaitTimeoutError(this.id, options.waitMs ?? 0);
        await announced;
      } finally {
        over.abort();
      }
    }
  }

  async #settled(wanted: number | undefined): Promise<TurnResult | undefined> {
    const row = await this.row();
    const generation = wanted ?? row.generation;
    if (generation === row.generation && row.state !== "settled") return undefined;
    const result = await this.#ask((ledger) => ledger.result(this.id, generation));
    // The Result of a settled turn is there: it is stored in one step with the state.
    if (result !== undefined || wanted === undefined) return result;
    throw new TurnqError("not_found", `there is no Result of generation ${wanted}`, { where: `turn ${this.id}` });
  }

  /** Undefined while Redis is away and there is time left: whoever waits for a turn does not give it up for that. */
  async #outlast<T>(ask: () => Promise<T>, leftMs: number): Promise<T | undefined> {
    try {
      return await ask();
    } catch (error) {
      if (this.#watch.closed)
        throw new TurnqError("closed", "turnq was closed", { where: `turn ${this.id}`, cause: error });
      if (leftMs > 0 && isTurnqError(error, "redis_unreachable")) return undefined;
      throw error;
    }
  }

  /**
   * The events of all attempts, from the start or after a seq, until the turn is settled. Events of
   * attempts that closed long ago come from their records: neighbouring deltas are joined there.
   * Goes on after an outage of Redis.
   */
  async *events(options: EventsOptions = {}): AsyncGenerator<TurnEvent> {
    const stopped = (): boolean => options.signal?.aborted === true;
    let after = seqOf(options.after, this.id);
    for (let attempt = 1; !stopped();) {
      const page = await this.#outlast(
        () => this.#page(attempt, after, options.follow !== false),
        Number.POSITIVE_INFINITY,
      );
      for (const event of page?.events ?? []) {
        if (stopped()) return;
        yield event;
      }
      const from = after;
      after = page?.to ?? from;
      if (after > from) continue;
      if (page?.next === "attempt") attempt++;
      else if (page?.next === "end") return;
      else await sleep(EVENTS_EVERY_MS, undefined, { signal: options.signal }).catch(() => undefined);
    }
  }

  /** Events of an attempt after a seq, and what follows when there are none. */
  async #page(
    attempt: number,
    after: number,
    follow: boolean,
  ): Promise<EventPage & { next: "attempt" | "end" | "wait" }> {
    const row = await this.row();
    const next = row.attempt > attempt ? "attempt" : row.state === "settled" ? "end" : "wait";
    const page = await this.#eventsOf(attempt, after, next !== "wait");
    // A turn that was settled without a run has no stream for its last event; one that cannot be read is made anew too.
    const atEnd = next === "end" && row.seq > after && (page.to === after || page.to >= row.seq);
    const missing = atEnd && page.events.length === 0 ? completedOf(row) : undefined;
    if (missing !== undefined) return { events: [missing], to: row.seq, next };
    return { ...page, next: next === "wait" && !follow ? "end" : next };
  }

  async #eventsOf(attempt: number, after: number, closed: boolean): Promise<EventPage> {
    const live = await this.#ask((ledger) => ledger.events(this.id, attempt, after));
    if (live !== undefined || !closed) return live ?? { events: [], to: after };
    const stored = await this.#ask((ledger) => ledger.attempt(this.id, attempt));
    const events = stored?.events.filter((event) => event.seq > after) ?? [];
    return { events, to: events.at(-1)?.seq ?? after };
  }
}

function seqOf(after: number | undefined, turn: string): number {
  const seq = after ?? 0;
  if (Number.isSafeInteger(seq) && seq >= 0) return seq;
  throw new TurnqError("invalid_request", "after must be the seq of an event, or 0", { where: `turn ${turn}` });
}

/** The last event of a settled turn, as its row tells it. */
function completedOf(row: TurnRow): TurnEvent | undefined {
  const { id, attempt, generation, outcome, seq, settledAt = 0 } = row;
  if (outcome === undefined) return undefined;
  const ok = outcome === "ok";
  // Every event names an attempt; where there was none, the first is as good as any.
  return {
    type: "turn_completed",
    turn: id,
    attempt: Math.max(1, attempt),
    seq,
    at: settledAt,
    outcome,
    ok,
    generation,
  };
}
