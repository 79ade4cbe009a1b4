import { StringDecoder } from "node:string_decoder";
import { TRANSCRIPT_MAX } from "../domain/text.ts";

/** How much of a log is kept for messages, in bytes. */
export const TAIL_BYTES = 8 * 1024;

/** The last bytes of a stream. */
export class OutputTail {
  #held: Buffer[] = [];
  #bytes = 0;
  readonly #maxBytes: number;

  constructor(maxBytes: number = TAIL_BYTES) {
    this.#maxBytes = maxBytes;
  }

  push(chunk: Buffer): void {
    // A copy: a slice would keep the whole block of memory that the stream read into.
    const kept = Buffer.from(chunk.length > this.#maxBytes ? chunk.subarray(chunk.length - this.#maxBytes) : chunk);
    this.#held.push(kept);
    this.#bytes += kept.length;
    for (
      let first = this.#held[0];
      first !== undefined && this.#bytes - first.length >= this.#maxBytes;
      first = this.#held[0]
    ) {
      this.#held.shift();
      this.#bytes -= first.length;
    }
    // Many small writes are joined, so that the list stays short.
    if (this.#held.length > 256) this.#held = [Buffer.concat(this.#held)];
  }

  /** Bytes of a character that was cut in two become U+FFFD. */
  text(): string {
    const all = Buffer.concat(this.#held);
    return all.subarray(Math.max(0, all.length - this.#maxBytes)).toString("utf8");
  }
}

/** The text of a stream as it comes in, up to a limit; what is beyond is counted and dropped. */
export class OutputHead {
  /** True once something was dropped. */
  cut = false;
  readonly #decoder = new StringDecoder("utf8");
  #left: number;

  constructor(max: number = TRANSCRIPT_MAX) {
    this.#left = max;
  }

  /** The part of the chunk that is within the limit, as text. */
  take(chunk: Buffer): string {
    if (this.cut) return "";
    return this.#keep(this.#decoder.write(chunk));
  }

  /** What is left when the stream has ended. */
  end(): string {
    return this.cut ? "" : this.#keep(this.#decoder.end());
  }

  #keep(text: string): string {
    if (text.length <= this.#left) {
      this.#left -= text.length;
      return text;
    }
    this.cut = true;
    const head = text.slice(0, this.#left);
    return head.isWellFormed() ? head : head.slice(0, -1);
  }
}
