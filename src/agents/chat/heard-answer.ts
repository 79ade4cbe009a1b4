import { readUsage, type Usage } from "../../domain/usage.ts";
import { field } from "./field.ts";
import { errorIn, saidError, type SaidError } from "./said-error.ts";

/** The longest line, and the longest answer that is no stream, that is kept, in bytes. */
const LONGEST = 256 * 1024;

const NEWLINE = 10;

export interface HeardError extends SaidError {
  /** Nothing of an answer came before it. */
  readonly isFirst: boolean;
}

/**
 * What an answer of status 200 has said that counts when it does not come to its end: its usage so
 * far and an error in it. The SDK keeps the first for itself and gives but a part of the second.
 * It is taken from the bytes that pass, and parsed only when somebody asks.
 */
export class HeardAnswer {
  readonly headers: Readonly<Record<string, string>>;
  #rest = Buffer.alloc(0);
  /** Undefined until a first byte tells: JSON in place of a stream. */
  #isJson: boolean | undefined;
  /** Nothing came before the error. */
  #errorIsFirst = true;
  #error: string | undefined;
  #errorFollows = false;
  readonly #usage: string[] = [];

  constructor(headers: Readonly<Record<string, string>>) {
    this.headers = headers;
  }

  /** The error that it told of; undefined when there was none. */
  get error(): HeardError | undefined {
    if (this.#isJson === true) {
      const said = errorIn(parsed(this.#rest.toString("utf8")));
      return said === undefined ? undefined : { ...said, isFirst: true };
    }
    this.#hear(this.#rest);
    if (this.#error === undefined) return undefined;
    const piece = parsed(this.#error);
    return { ...(errorIn(piece) ?? saidError(piece ?? this.#error)), isFirst: this.#errorIsFirst };
  }

  /** What it said to have used; undefined when it said nothing. It is a floor: the answer may not have come to its end. */
  get usage(): Usage | undefined {
    const raw: Record<string, unknown> = {};
    for (const piece of this.#usage.map(parsed)) {
      const usage = field(piece, "usage") ?? field(field(piece, "message"), "usage");
      for (const [name, value] of Object.entries(Object(usage) as object)) if (value !== null) raw[name] = value;
    }
    const usage = usageIn(raw);
    return usage === undefined ? undefined : { ...usage, known: "partial" };
  }

  /** Takes a piece of the answer's body. */
  take(bytes: Uint8Array): void {
    const chunk = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#isJson ??= startsAsJson(chunk);
    const all = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    const end = this.#isJson === true ? 0 : all.lastIndexOf(NEWLINE) + 1;
    const rest = all.subarray(end);
    // A copy: the piece belongs to a larger one. What is too long to be kept is no error, and names no usage.
    this.#rest = rest.length > LONGEST ? Buffer.alloc(0) : Buffer.from(rest);
    if (end > 0) this.#hear(all.subarray(0, end));
  }

  #hear(lines: Buffer): void {
    if (this.#error !== undefined) return;
    const counts = this.#errorFollows || MARKS.some((mark) => lines.includes(mark));
    if (!counts) {
      this.#errorIsFirst &&= !lines.includes("data:");
      return;
    }
    for (const line of lines.toString("utf8").split("\n")) this.#hearLine(line);
  }

  #hearLine(line: string): void {
    if (/^event: ?error\s*$/.test(line)) this.#errorFollows = true;
    if (!line.startsWith("data:") || this.#error !== undefined) return;
    const data = line.slice("data:".length).trim();
    if (this.#errorFollows || (data.includes('"error"') && errorIn(parsed(data)) !== undefined)) this.#error = data;
    else {
      this.#errorIsFirst = false;
      if (/"usage"\s*:\s*\{/.test(data)) this.#keepUsage(data);
    }
  }

  /** Anthropic names the input first and the output last; others say all of it again with each piece. */
  #keepUsage(data: string): void {
    if (this.#usage.length > 1) this.#usage.pop();
    this.#usage.push(data);
  }
}

const MARKS = ['"usage":{', '"usage": {', '"error"', "event: error", "event:error"];

function startsAsJson(chunk: Buffer): boolean | undefined {
  const first = chunk.find((byte) => byte > 0x20);
  return first === undefined ? undefined : first === 0x7b || first === 0x5b;
}

/** Usage in OpenAI's words or Anthropic's. */
function usageIn(raw: unknown): Usage | undefined {
  const cached = field(field(raw, "prompt_tokens_details"), "cached_tokens") ?? undefined;
  const prompt = field(raw, "prompt_tokens");
  const said = {
    inputTokens:
      typeof prompt === "number" ? prompt - (typeof cached === "number" ? cached : 0) : field(raw, "input_tokens"),
    outputTokens: field(raw, "completion_tokens") ?? field(raw, "output_tokens"),
    cacheReadTokens: cached ?? field(raw, "cache_read_input_tokens"),
    cacheWriteTokens: field(raw, "cache_creation_input_tokens"),
    reasoningTokens: field(field(raw, "completion_tokens_details"), "reasoning_tokens"),
  };
  if (said.inputTokens === undefined && said.outputTokens === undefined) return undefined;
  return { ...readUsage(said), modelCalls: 1 };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
