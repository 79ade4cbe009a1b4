/**
 * The sample ids of an input, so that two lines with one id are found. A line with an id of its own
 * costs about 100 bytes and its id; lines without one, whose id is their number, cost nothing as
 * long as they stand together.
 */
export class SeenIds {
  readonly #own = new Map<string, number>();
  /** Runs of lines without ids, first and last number, in order. */
  readonly #runs: { first: number; last: number }[] = [];

  /** The earlier line that has this id; else undefined, and the id is noted. `own`: the line says it itself. */
  add(id: string, line: number, own: boolean): number | undefined {
    const earlier = this.#own.get(id) ?? this.#numbered(id);
    if (earlier !== undefined) return earlier;
    if (own) this.#own.set(id, line);
    else this.#extend(line);
    return undefined;
  }

  #extend(line: number): void {
    const last = this.#runs.at(-1);
    if (last !== undefined && last.last === line - 1) last.last = line;
    else this.#runs.push({ first: line, last: line });
  }

  #numbered(id: string): number | undefined {
    if (!/^[1-9]\d{0,14}$/.test(id)) return undefined;
    const line = Number(id);
    let low = 0;
    let high = this.#runs.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#runs[middle]?.last ?? 0) < line) low = middle + 1;
      else high = middle;
    }
    const run = this.#runs[low];
    return run !== undefined && run.first <= line ? line : undefined;
  }
}
