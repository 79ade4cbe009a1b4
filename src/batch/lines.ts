import { isUtf8 } from "node:buffer";

/** The longest line, in bytes. */
export const LINE_MAX_BYTES = 8 * 1024 * 1024;

/** One line of a file, counted from 1, or why it cannot be read. Blank lines are counted and left out. */
export type Line =
  | { readonly number: number; readonly text: string; readonly problem?: undefined }
  | { readonly number: number; readonly problem: string; readonly text?: undefined };

const NEWLINE = 0x0a;
const HEAD_BYTES = 4;

/**
 * The lines of UTF-8 text. A byte order mark, CRLF and a last line without a newline are accepted.
 * A line that is too long or not UTF-8 is a problem and its neighbours are kept; a file that is not
 * UTF-8 text at all (UTF-16, an archive) is one problem on line 1. Holds one line of at most
 * `maxBytes` in memory, whatever the input is. An error of the source is thrown as it is.
 */
export async function* readLines(
  source: AsyncIterable<Uint8Array>,
  options: { readonly maxBytes?: number | undefined } = {},
): AsyncGenerator<Line, void, undefined> {
  const splitter = new Splitter(options.maxBytes ?? LINE_MAX_BYTES);
  let head: Uint8Array | undefined = new Uint8Array(0);
  for await (const chunk of source) {
    let bytes = chunk;
    if (head !== undefined) {
      head = Buffer.concat([head, chunk]);
      if (head.length < HEAD_BYTES) continue;
      bytes = head;
      head = undefined;
      const problem = foreignText(bytes);
      if (problem !== undefined) return yield { number: 1, problem };
      bytes = withoutMark(bytes);
    }
    yield* splitter.push(bytes);
  }
  if (head !== undefined && head.length > 0) {
    const problem = foreignText(head);
    if (problem !== undefined) return yield { number: 1, problem };
    yield* splitter.push(withoutMark(head));
  }
  yield* splitter.end();
}

function withoutMark(bytes: Uint8Array): Uint8Array {
  return startsWith(bytes, [0xef, 0xbb, 0xbf]) ? bytes.subarray(3) : bytes;
}

function foreignText(head: Uint8Array): string | undefined {
  if (startsWith(head, [0xff, 0xfe]) || startsWith(head, [0xfe, 0xff])) return "the file is UTF-16; save it as UTF-8";
  // Text in UTF-16 without a mark: every other byte of an ASCII character is 0.
  if (head.length >= 2 && (head[0] === 0) !== (head[1] === 0)) return "the file looks like UTF-16; save it as UTF-8";
  if (startsWith(head, [0x1f, 0x8b]) || startsWith(head, [0x28, 0xb5, 0x2f, 0xfd]))
    return "the file is compressed; unpack it";
  if (startsWith(head, [0x50, 0x4b, 3, 4])) return "the file is a zip archive; unpack it";
  return undefined;
}

function startsWith(bytes: Uint8Array, start: readonly number[]): boolean {
  return start.every((byte, index) => bytes[index] === byte);
}

class Splitter {
  readonly #maxBytes: number;
  #line = 1;
  // One buffer that grows: a list of pieces would cost far more than the limit when the pieces are tiny.
  #rest = Buffer.alloc(0);
  #length = 0;
  #tooLong = false;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  *push(bytes: Uint8Array): Generator<Line, void, undefined> {
    let from = 0;
    for (let at = bytes.indexOf(NEWLINE); at >= 0; at = bytes.indexOf(NEWLINE, from)) {
      const piece = bytes.subarray(from, at);
      from = at + 1;
      const line = this.#finish(piece);
      if (line !== undefined) yield line;
    }
    this.#keep(bytes.subarray(from));
  }

  *end(): Generator<Line, void, undefined> {
    const line = this.#finish(new Uint8Array(0));
    if (line !== undefined) yield line;
  }

  #keep(piece: Uint8Array): void {
    if (this.#tooLong || piece.length === 0) return;
    const length = this.#length + piece.length;
    if (length > this.#maxBytes) {
      this.#tooLong = true;
      this.#rest = Buffer.alloc(0);
      this.#length = 0;
      return;
    }
    if (length > this.#rest.length) {
      const larger = Buffer.allocUnsafe(Math.min(this.#maxBytes, Math.max(length, 2 * this.#rest.length)));
      this.#rest.copy(larger, 0, 0, this.#length);
      this.#rest = larger;
    }
    this.#rest.set(piece, this.#length);
    this.#length = length;
  }

  /** The line that ends with `piece`; undefined for a blank one. */
  #finish(piece: Uint8Array): Line | undefined {
    let whole = piece;
    if (this.#length > 0 || this.#tooLong || piece.length > this.#maxBytes) {
      this.#keep(piece);
      whole = this.#rest.subarray(0, this.#length);
    }
    const number = this.#line++;
    const tooLong = this.#tooLong;
    this.#length = 0;
    this.#tooLong = false;
    if (tooLong) return { number, problem: `is longer than ${this.#maxBytes} bytes` };
    if (!isUtf8(whole)) return { number, problem: "is not valid UTF-8" };
    const text = Buffer.from(whole.buffer, whole.byteOffset, whole.byteLength).toString("utf8").trim();
    return text === "" ? undefined : { number, text };
  }
}
