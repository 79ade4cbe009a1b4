import type { EventBody, TurnEvent } from "../domain/turn-event.ts";

/** How far the stored stream may be behind the agent, in ms. */
const FLUSH_EVERY_MS = 100;
/** Most events in one append. */
const FLUSH_MAX = 500;
/** A merged delta grows no longer than this, in characters. */
const DELTA_MAX_CHARS = 65_536;

export interface EventPipeOptions {
  readonly turn: string;
  readonly attempt: number;
  /** Seq of the last event before this attempt. */
  readonly after: number;
  /** Stores events; false when the attempt is no longer current. Repeats itself until Redis answers. */
  readonly append: (events: readonly TurnEvent[]) => Promise<boolean>;
  /** More text than this is not kept: the transcript limit, in characters. */
  readonly maxChars: number;
  readonly now?: (() => number) | undefined;
}

type Waiting = { readonly at: number; body: EventBody };

/**
 * Carries an attempt's events to its stream: in order, at most 100 ms behind, deltas merged while
 * they wait. Events get their seq when they are taken, so that the stream has no gaps.
 */
export class EventPipe {
  readonly #options: EventPipeOptions;
  readonly #now: () => number;
  /** What is in the stream, deltas merged: an answer that trickles for hours is not held piece by piece. */
  readonly #stored: TurnEvent[] = [];
  /** What has its seq and is not in the stream yet. */
  #taken: TurnEvent[] = [];
  #waiting: Waiting[] = [];
  #seq: number;
  #chars = 0;
  #timer: NodeJS.Timeout | undefined;
  #flushing: Promise<void> = Promise.resolve();
  #open = true;

  constructor(options: EventPipeOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#seq = options.after;
  }

  /** Takes an event. Never throws. Of a model call that is announced it answers when that is stored: false when the attempt is no longer current. */
  push(body: EventBody): Promise<boolean> | undefined {
    if (!this.#open) return body.type === "call_start" ? Promise.resolve(false) : undefined;
    if (body.type === "text_delta" || body.type === "thought_delta") {
      // What is cut at the limit bears a note that is beyond it.
      if (this.#chars > this.#options.maxChars) return undefined;
      this.#chars += body.text.length;
      if (this.#merge(body)) return undefined;
    }
    this.#waiting.push({ at: this.#now(), body });
    // A model call that is about to be paid for must be known before the worker can die of it.
    if (body.type === "call_start" || this.#waiting.length >= FLUSH_MAX) this.#flush();
    else this.#timer ??= setTimeout(() => this.#flush(), FLUSH_EVERY_MS);
    return body.type === "call_start" ? this.#flushing.then(() => this.#open) : undefined;
  }

  #merge(body: EventBody & { type: "text_delta" | "thought_delta" }): boolean {
    const last = this.#waiting.at(-1);
    if (last === undefined || last.body.type !== body.type) return false;
    if (last.body.threadId !== body.threadId || last.body.text.length + body.text.length > DELTA_MAX_CHARS)
      return false;
    last.body = { ...last.body, text: last.body.text + body.text };
    return true;
  }

  #take(): TurnEvent[] {
    const { turn, attempt } = this.#options;
    const events = this.#waiting.map(({ at, body }): TurnEvent => ({ turn, attempt, seq: ++this.#seq, at, ...body }));
    this.#waiting = [];
    this.#taken.push(...events);
    return events;
  }

  /** Appends in parts; false when the attempt is no longer current. */
  async #send(events: readonly TurnEvent[]): Promise<boolean> {
    for (let from = 0; from < events.length; from += FLUSH_MAX) {
      const part = events.slice(from, from + FLUSH_MAX);
      if (!(await this.#options.append(part))) return false;
      this.#taken = this.#taken.slice(part.length);
      addMerged(this.#stored, part);
    }
    return true;
  }

  #flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    // While one append is under way the next events wait and merge: a slow Redis makes fewer, longer appends.
    this.#flushing = this.#flushing.then(async () => {
      if (!this.#open || this.#waiting.length === 0) return;
      if (!(await this.#send(this.#take()))) this.#open = false;
    });
  }

  /**
   * Ends the pipe. `events` are all of this attempt with its last ones, deltas merged; `tail` those
   * that are not in the stream yet. Waits for an append that is under way.
   */
  async end(last: readonly EventBody[]): Promise<{ readonly events: TurnEvent[]; readonly tail: TurnEvent[] }> {
    clearTimeout(this.#timer);
    for (const body of last) this.#waiting.push({ at: this.#now(), body });
    this.#open = false;
    await this.#flushing;
    this.#take();
    // The close takes a bounded number of events. Where there is a stream, somebody may watch it: it gets the others before.
    if (this.#stored.length > 0 && this.#taken.length > FLUSH_MAX) await this.#send(this.#taken.slice(0, -FLUSH_MAX));
    return { events: mergeDeltas([...this.#stored, ...this.#taken]), tail: this.#taken };
  }
}

/** Events with neighbouring deltas joined, each with its last seq. */
export function mergeDeltas(events: readonly TurnEvent[]): TurnEvent[] {
  const merged: TurnEvent[] = [];
  addMerged(merged, events);
  return merged;
}

function addMerged(merged: TurnEvent[], events: readonly TurnEvent[]): void {
  for (const event of events) {
    const last = merged.at(-1);
    const joins =
      last !== undefined &&
      (event.type === "text_delta" || event.type === "thought_delta") &&
      last.type === event.type &&
      last.threadId === event.threadId;
    if (joins) merged[merged.length - 1] = { ...last, text: last.text + event.text, seq: event.seq };
    else merged.push(event);
  }
}
