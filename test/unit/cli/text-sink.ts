import { Writable } from "node:stream";

/** A stream that keeps what is written; `hold` makes it a reader who has stopped reading. */
export class TextSink extends Writable {
  text = "";
  hold = false;
  readonly isTTY: boolean;
  #held: (() => void)[] = [];

  constructor(options: { readonly isTTY?: boolean; readonly highWaterMark?: number } = {}) {
    super({ highWaterMark: options.highWaterMark ?? 16_384, decodeStrings: false });
    this.isTTY = options.isTTY ?? false;
  }

  override _write(chunk: string | Buffer, _encoding: string, done: (error?: Error) => void): void {
    const take = (): void => {
      this.text += String(chunk);
      done();
    };
    if (this.hold) this.#held.push(take);
    else take();
  }

  /** Reads on. */
  release(): void {
    this.hold = false;
    for (const take of this.#held.splice(0)) take();
  }

  /** What a pipe does when its reader has gone. */
  breakPipe(): void {
    this.destroy(Object.assign(new Error("write EPIPE"), { code: "EPIPE" }));
  }
}
