/** Longest line that is read, in bytes. */
export const LINE_MAX_BYTES = 8 * 1024 * 1024;

const NEWLINE = 0x0a;

export interface LineSplitterOptions {
  readonly onLine: (line: string) => void;
  readonly maxBytes?: number | undefined;
}

/**
 * Cuts a stream of bytes into lines as they come. A line over the limit is skipped and counted,
 * its neighbours are kept, and no more than the limit is ever held. CRLF and a BOM at the start
 * are taken off; bytes that are not UTF-8 become U+FFFD.
 */
export class LineSplitter {
  /** Lines that were over the limit. */
  skipped = 0;
  readonly #onLine: (line: string) => void;
  readonly #maxBytes: number;
  #held: Buffer[] = [];
  #heldBytes = 0;
  #skipping = false;
  #first = true;

  constructor(options: LineSplitterOptions) {
    this.#onLine = options.onLine;
    this.#maxBytes = options.maxBytes ?? LINE_MAX_BYTES;
  }

  push(chunk: Buffer): void {
    let from = 0;
    for (let at = chunk.indexOf(NEWLINE); at >= 0; at = chunk.indexOf(NEWLINE, from)) {
      this.#hold(chunk.subarray(from, at));
      this.#close();
      from = at + 1;
    }
    if (from < chunk.length) this.#hold(chunk.subarray(from));
  }

  /** The stream has ended: what came after the last newline is a line too. */
  end(): void {
    if (this.#skipping || this.#heldBytes > 0) this.#close();
  }

  #hold(part: Buffer): void {
    if (this.#skipping) return;
    this.#heldBytes += part.length;
    if (this.#heldBytes <= this.#maxBytes) {
      if (part.length > 0) this.#held.push(part);
      return;
    }
    this.#skipping = true;
    this.#held = [];
  }

  #close(): void {
    const text = this.#skipping ? undefined : Buffer.concat(this.#held).toString("utf8");
    if (this.#skipping) this.skipped += 1;
    this.#held = [];
    this.#heldBytes = 0;
    this.#skipping = false;
    if (text !== undefined) this.#onLine(this.#trim(text));
    this.#first = false;
  }

  #trim(text: string): string {
    const start = this.#first && text.startsWith("\uFEFF") ? 1 : 0;
    return text.slice(start, text.endsWith("\r") ? -1 : undefined);
  }
}
