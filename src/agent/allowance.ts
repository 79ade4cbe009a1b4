import { TRANSCRIPT_MAX } from "../domain/text.ts";

/** An agent may say a million empty things: one entry is kept for so many characters of the limit, and some in any case. */
const CHARS_PER_ENTRY = 100;
const ENTRIES_AT_LEAST = 1000;

/**
 * What of an attempt is still kept: characters, as `limits.maxTranscriptChars` says, and entries (a stretch of text, a
 * step, a tool call, a plan, a message), of which it says nothing and which cost none of them.
 */
export class Allowance {
  #chars: number;
  #entries: number;

  constructor(max: number = TRANSCRIPT_MAX) {
    this.#chars = max;
    this.#entries = Math.max(ENTRIES_AT_LEAST, Math.floor(max / CHARS_PER_ENTRY));
  }

  /** Books it; false, and nothing is booked, where there is no room for all of it. */
  take(chars: number, entries = 1): boolean {
    if (chars > this.#chars || entries > this.#entries) return false;
    this.#chars -= chars;
    this.#entries -= entries;
    return true;
  }

  /** Books all the characters that are left, for what is over and is to be cut; none where there is no room for the entries. */
  takeRest(entries = 1): number {
    const rest = this.#chars;
    return this.take(rest, entries) ? rest : 0;
  }
}
