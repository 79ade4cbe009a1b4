import type { ResultLine } from "../batch/result-line.ts";
import { headText, lineText, openResultsFile, type ResultFormat } from "../batch/results-file.ts";
import type { Spend } from "../batch/spend.ts";
import { SummaryFold, type Summary, type SummaryFacts } from "../batch/summary.ts";
import { outcomeOf } from "../domain/turn-result.ts";
import type { Output } from "./output.ts";

/**
 * Takes each cell's result once, into the summary and to whoever asks. It remembers the ids of the
 * turns, about 100 bytes each: the one place where a run does.
 */
export class ResultCollector {
  readonly batch: string;
  readonly #fold: SummaryFold;
  /** The generation that was taken, by turn. */
  readonly #taken = new Map<string, number>();
  #outdated = false;
  #crashed: string | undefined;
  #failed: string | undefined;
  #any: string | undefined;

  constructor(batch: string) {
    this.batch = batch;
    this.#fold = new SummaryFold(batch);
  }

  /** True when the cell is new. One that comes again with a later generation makes this outdated. */
  accept(line: ResultLine): boolean {
    const taken = this.#taken.get(line.turn);
    if (taken !== undefined) {
      this.#outdated ||= line.generation > taken;
      return false;
    }
    this.#taken.set(line.turn, line.generation);
    this.#fold.add(line);
    this.#any ??= line.turn;
    if (outcomeOf(line.status) === "failed") this.#failed ??= line.turn;
    else if (line.attempts.length > 1) this.#crashed ??= line.turn;
    return true;
  }

  /** True when a cell that was taken has settled anew since: what was taken no longer stands. */
  get outdated(): boolean {
    return this.#outdated;
  }

  /** True when this very Result was taken. */
  has({ turn, generation }: ResultLine): boolean {
    return this.#taken.get(turn) === generation;
  }

  /** Cells that were taken. */
  get count(): number {
    return this.#taken.size;
  }

  /** The turn that is most worth a look: one that crashed and went on, else one that failed. */
  get worthALook(): string | undefined {
    return this.#crashed ?? this.#failed ?? this.#any;
  }

  /** Only the lines that are new. */
  async *fresh(lines: AsyncIterable<ResultLine>): AsyncGenerator<ResultLine> {
    for await (const line of lines) if (this.accept(line)) yield line;
  }

  /** True when the lines hold all of this spend. */
  accountsFor(spend: Spend): boolean {
    return this.#fold.accountsFor(spend);
  }

  summary(facts: SummaryFacts): Summary {
    return this.#fold.summary(facts);
  }
}

/** Where result lines go. */
export interface ResultSink {
  /** Resolves when more may be given. */
  put(line: ResultLine): Promise<void>;
  /** Puts these in the place of all before; undefined where what is written is out. */
  readonly replace?: ((lines: AsyncIterable<ResultLine>) => Promise<void>) | undefined;
  close(): Promise<void>;
}

/** Lines on stdout. */
export async function stdoutSink(output: Output, format: ResultFormat = "jsonl"): Promise<ResultSink> {
  const head = headText(format);
  if (head !== undefined) await output.data(head);
  return { put: (line) => output.data(lineText(line, format)), close: () => Promise.resolve() };
}

/** Lines in a file, which first gets `settled`. Throws `file`. */
export async function fileSink(
  path: string,
  settled: AsyncIterable<ResultLine>,
  format: ResultFormat = "jsonl",
): Promise<ResultSink> {
  let file = await openResultsFile(path, settled, format);
  const replace = async (lines: AsyncIterable<ResultLine>): Promise<void> => {
    await file.close();
    file = await openResultsFile(path, lines, format);
  };
  return {
    put: (line) => file.append(line),
    replace: file.replaceable ? replace : undefined,
    close: () => file.close(),
  };
}

/**
 * The collector and the sink as they are to be when turns have settled anew while they were
 * collected: all is read again, a file written anew, and elsewhere the Results that are new follow.
 */
export async function upToDate(
  collector: ResultCollector,
  sink: ResultSink,
  read: () => AsyncIterable<ResultLine>,
): Promise<ResultCollector> {
  let last = collector;
  while (last.outdated) {
    const next = new ResultCollector(last.batch);
    const lines = next.fresh(read());
    if (sink.replace !== undefined) await sink.replace(lines);
    else for await (const line of lines) if (!last.has(line)) await sink.put(line);
    last = next;
  }
  return last;
}
