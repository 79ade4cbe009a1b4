/** How a value of the Redis protocol (RESP 2 and 3) begins. */
const CR_LF = "\r\n";
const BULKS = "$=!";
const AGGREGATES = "*~>";
const PAIRS = "%|";

/** A whole value of the protocol, as it came. */
export interface RespValue {
  readonly bytes: Buffer;
  /** The character that says what it is: `>` for a push, which answers no command. */
  readonly kind: string;
}

/**
 * Cuts a stream of bytes into whole values, without a copy of what is not yet whole at each step: a
 * value of many megabytes comes in many chunks.
 */
export class RespReader {
  #chunks: Buffer[] = [];
  #bytes = 0;
  /** Fewer bytes than these hold no whole value. */
  #needed = 1;

  /** Takes the next bytes and answers the values that are whole now. */
  read(chunk: Buffer): RespValue[] {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    if (this.#bytes < this.#needed) return [];
    const buffer = Buffer.concat(this.#chunks);
    const values: RespValue[] = [];
    let from = 0;
    this.#needed = 1;
    while (from < buffer.length) {
      const end = endOf(buffer, from);
      if (end.whole) {
        values.push({ bytes: buffer.subarray(from, end.at), kind: String.fromCharCode(buffer[from] ?? 0) });
        from = end.at;
        continue;
      }
      this.#needed = Math.max(1, end.at - from);
      break;
    }
    const rest = buffer.subarray(from);
    this.#chunks = [rest];
    this.#bytes = rest.length;
    return values;
  }

  /** Takes out the bytes that are no whole value yet. */
  rest(): Buffer {
    const rest = Buffer.concat(this.#chunks);
    this.#chunks = [];
    this.#bytes = 0;
    this.#needed = 1;
    return rest;
  }
}

interface End {
  /** False when more bytes must come; `at` is then the least place of its end that is known. */
  readonly whole: boolean;
  readonly at: number;
}

function endOf(buffer: Buffer, from: number): End {
  const line = buffer.indexOf(CR_LF, from);
  if (line === -1) return { whole: false, at: buffer.length + 1 };
  const kind = String.fromCharCode(buffer[from] ?? 0);
  let at = line + CR_LF.length;
  if (!BULKS.includes(kind) && !AGGREGATES.includes(kind) && !PAIRS.includes(kind)) return { whole: true, at };
  const count = Number(buffer.toString("latin1", from + 1, line));
  if (BULKS.includes(kind)) {
    if (count < 0) return { whole: true, at };
    at += count + CR_LF.length;
    return { whole: at <= buffer.length, at };
  }
  // Attributes stand before the value that they describe.
  const parts = PAIRS.includes(kind) ? 2 * count + (kind === "|" ? 1 : 0) : count;
  for (let left = parts; left > 0; left--) {
    const part = endOf(buffer, at);
    if (!part.whole) return part;
    ({ at } = part);
  }
  return { whole: true, at };
}

/** The words of a command as clients send it: an array of bulk strings. */
export function wordsOf({ bytes }: RespValue): Buffer[] {
  const words: Buffer[] = [];
  let at = bytes.indexOf(CR_LF) + CR_LF.length;
  while (at < bytes.length) {
    const line = bytes.indexOf(CR_LF, at);
    const from = line + CR_LF.length;
    const end = from + Number(bytes.toString("latin1", at + 1, line));
    words.push(bytes.subarray(from, end));
    at = end + CR_LF.length;
  }
  return words;
}
