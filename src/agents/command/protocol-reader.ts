import type { EventBody } from "../../domain/turn-event.ts";
import { USAGE_FIELDS, type Usage } from "../../domain/usage.ts";
import { OutputTail } from "../../process/bounded-output.ts";
import { LineSplitter } from "../../process/json-lines.ts";
import { readLine, type FinalLine, type ProtocolLine, type UsageLine } from "./protocol-line.ts";

export interface ProtocolReaderOptions {
  readonly emit: (event: EventBody) => void;
  /** Called once, with the first `result` or `error`. */
  readonly onFinal: () => void;
  readonly maxLineBytes?: number | undefined;
}

const LOG_BYTES = 4 * 1024;

/** Makes events of what a program says on its stdout. Bounded in memory, whatever comes. */
export class ProtocolReader {
  /** The first `result` or `error`. */
  final: FinalLine | undefined;
  /** Lines that are JSON objects and say nothing known or valid. */
  ignored = 0;
  readonly #options: ProtocolReaderOptions;
  readonly #splitter: LineSplitter;
  readonly #log = new OutputTail(LOG_BYTES);
  #known: Usage["known"] = "reported";
  #usage: Usage | undefined;
  #lastLogged = "";
  #ended = false;

  constructor(options: ProtocolReaderOptions) {
    this.#options = options;
    this.#splitter = new LineSplitter({ onLine: (line) => this.#read(line), maxBytes: options.maxLineBytes });
  }

  /** Lines over the limit. */
  get skipped(): number {
    return this.#splitter.skipped;
  }

  /** The last lines that are not of the protocol. */
  get log(): string {
    return this.#log.text();
  }

  /** True when stdout ended in the middle of an object. */
  get truncated(): boolean {
    return this.#ended && this.#lastLogged.trimStart().startsWith("{");
  }

  push(chunk: Buffer): void {
    this.#splitter.push(chunk);
  }

  end(): void {
    this.#lastLogged = "";
    this.#splitter.end();
    this.#ended = true;
  }

  #read(text: string): void {
    if (text.trim() === "" || this.final !== undefined) return;
    const read = readLine(text);
    if (read.kind === "unknown") this.#ignore(read.usage);
    else if (read.kind === "log") this.#keepLog(text);
    else this.#take(read.line);
  }

  /** A report that cannot be used leaves the sum a floor, and the sum says so. */
  #ignore(usage: boolean): void {
    this.ignored += 1;
    if (!usage || this.#known === "partial") return;
    this.#known = "partial";
    if (this.#usage === undefined) return;
    this.#usage = { ...this.#usage, known: "partial" };
    this.#emit({ type: "usage", usage: this.#usage });
  }

  #keepLog(text: string): void {
    this.#lastLogged = text.slice(0, LOG_BYTES);
    this.#log.push(Buffer.from(`${this.#lastLogged}\n`));
  }

  #take(line: ProtocolLine): void {
    switch (line.type) {
      case "text":
        return this.#emit({ type: "text_delta", text: line.text });
      case "thought":
        return this.#emit({ type: "thought_delta", text: line.text });
      case "step_start":
        return this.#emit({ type: "step_start", number: line.number ?? 1 });
      case "step_end":
        return this.#emit({ type: "step_end", number: 1, success: line.success });
      case "call_start":
        return this.#emit({ type: "call_start", ...(line.model === undefined ? {} : { model: line.model }) });
      case "tool_start":
        return this.#emit({ type: "tool_start", id: line.id, name: line.name, args: line.args });
      case "tool_end": {
        const result = line.result === undefined ? {} : { result: line.result };
        return this.#emit({ type: "tool_end", id: line.id, status: line.status, ...result });
      }
      case "plan":
        return this.#emit({ type: "plan", plan: line.plan });
      case "usage":
        return this.#takeUsage(line);
      case "result":
      case "error":
        this.final = line;
        return this.#options.onFinal();
    }
  }

  #emit(event: EventBody): void {
    this.#options.emit(event);
  }

  /** Reports are cumulative: a figure that goes back is a mistake, and the sum must not become too small by it. */
  #takeUsage(line: UsageLine): void {
    const next: Usage = { ...(this.#usage ?? { modelCalls: 0, toolCalls: 0 }), known: this.#known };
    let said = false;
    for (const field of USAGE_FIELDS) {
      if (field === "toolCalls") continue;
      const value = line[field];
      if (value === undefined) continue;
      said = true;
      if (value < (next[field] ?? 0)) return this.#ignore(true);
      next[field] = value;
    }
    if (!said) return this.#ignore(false);
    this.#usage = next;
    this.#options.emit({ type: "usage", usage: next });
  }
}
