/** Joins what a stream splits inside a character: half a surrogate pair waits for its other half. */
export class SplitText {
  #half = "";

  /** What can be told of the text so far. */
  add(piece: string): string {
    const text = this.#half + piece;
    const last = text.charCodeAt(text.length - 1);
    const splits = last >= 0xd800 && last <= 0xdbff;
    this.#half = splits ? text.slice(-1) : "";
    return splits ? text.slice(0, -1) : text;
  }

  /** What is left over at the end. */
  end(): string {
    const rest = this.#half;
    this.#half = "";
    return rest;
  }
}
