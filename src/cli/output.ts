import type { createLogUpdate } from "log-update";
import pc from "picocolors";
import { TurnqError, messageOf } from "../domain/error.ts";
import { harmless, harmlessButColors } from "./harmless.ts";

/** Where the command line writes: a process's stdout or stderr, or a test's stand-in. */
export interface TextStream extends NodeJS.WritableStream {
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
}

export type Colors = ReturnType<typeof pc.createColors>;

/**
 * The one place that prints. Results go to stdout, all else to stderr. What is for people cannot drive their terminal,
 * whoever wrote what is quoted in it; what is for programs (`data`, `object`, `log`) stays as it is. Whoever writes much
 * awaits each write, so that a slow reader slows the writer and nothing piles up in memory.
 */
export class Output {
  readonly #stdout: TextStream;
  readonly #stderr: TextStream;
  readonly #gone = new AbortController();
  #live: ReturnType<typeof createLogUpdate> | undefined;
  #liveText = "";
  #pending = 0;
  /** Who waits for the stream to take more, or to have taken all. */
  readonly #waiting = new Set<() => void>();
  #failure: TurnqError | undefined;
  readonly colors: Colors;

  constructor(stdout: TextStream, stderr: TextStream) {
    this.#stdout = stdout;
    this.#stderr = stderr;
    this.colors = pc.createColors(stdout.isTTY === true && pc.isColorSupported);
    stdout.on("error", (error: Error) => this.#onError(error));
    // Nobody reads what is said about the work: that is no reason to end it.
    stderr.on("error", () => undefined);
  }

  /** Aborted when nobody reads stdout any more (`| head`). */
  get gone(): AbortSignal {
    return this.#gone.signal;
  }

  /** True where progress can be shown in place. */
  get isTerminal(): boolean {
    // One without a size shows nothing in place.
    return this.#stderr.isTTY === true && this.#stderr.columns !== 0;
  }

  /** Makes `live` work, where it does at all. Not with the rest, since loading what it needs takes a third of a `--help`. */
  async prepareLive(): Promise<void> {
    if (!this.isTerminal || this.#live !== undefined) return;
    const { createLogUpdate: create } = await import("log-update");
    this.#live = create(this.#stderr, { showCursor: true });
  }

  /** A line for people on stdout. Resolves when more may be written. Throws `file` when stdout cannot be written to. */
  async line(text: string): Promise<void> {
    await this.data(this.#harmless(text));
  }

  /** A line for programs on stdout, as it is. Else like `line`. */
  async data(text: string): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure;
    await this.#write(this.#stdout, `${text}\n`);
  }

  /** One object as a line of JSON for stdout. */
  async object(value: object): Promise<void> {
    await this.data(JSON.stringify(value));
  }

  /** A line for people on stderr, above what is shown in place. */
  note(text: string): void {
    this.log(this.#harmless(text));
  }

  /** A line for programs on stderr, as it is. */
  log(text: string): void {
    const shown = this.#liveText;
    this.live("");
    void this.#write(this.#stderr, `${text}\n`);
    this.live(shown);
  }

  /** Text in place of the text before, at the end of the terminal; "" takes it away. Does nothing elsewhere, and before `prepareLive`. */
  live(text: string): void {
    const live = this.#live;
    const shown = this.#harmless(text);
    if (live === undefined || shown === this.#liveText) return;
    this.#liveText = shown;
    if (shown === "") live.clear();
    else live(shown);
  }

  #harmless(text: string): string {
    return this.colors.isColorSupported ? harmlessButColors(text) : harmless(text);
  }

  /** Resolves when every byte has been taken over by the system, or nobody reads any more. */
  async flush(): Promise<void> {
    this.live("");
    while (this.#pending > 0 && !this.gone.aborted) await new Promise<void>((resolve) => this.#waiting.add(resolve));
    if (this.#failure !== undefined) throw this.#failure;
  }

  #write(stream: TextStream, text: string): Promise<void> {
    if (stream === this.#stdout && this.gone.aborted) return Promise.resolve();
    this.#pending += 1;
    return new Promise((resolve) => {
      const more = stream.write(text, () => {
        this.#pending -= 1;
        if (this.#pending === 0) this.#wake();
        this.#waiting.delete(resolve);
        resolve();
      });
      if (more) resolve();
      // A stream that is destroyed may never call back.
      else this.#waiting.add(resolve);
    });
  }

  #wake(): void {
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
  }

  #onError(error: Error): void {
    const code = "code" in error ? error.code : undefined;
    if (code !== "EPIPE" && code !== "ERR_STREAM_DESTROYED") {
      this.#failure ??= new TurnqError("file", `stdout cannot be written to: ${messageOf(error)}`, { cause: error });
    }
    this.#gone.abort();
    this.#wake();
  }
}
