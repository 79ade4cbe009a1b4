import type { ResultLine } from "../batch/result-line.ts";
import { openResultsFile, type ResultsFile } from "../batch/results-file.ts";
import { SummaryFold, type Summary } from "../batch/summary.ts";
import { outcomeOf } from "../domain/turn-result.ts";
import type { Output } from "./output.ts";

/** Takes each cell's result once: into the results file or to stdout, and into the summary. */
export class ResultCollector {
  readonly #fold: SummaryFold;
  readonly #seen = new Set<string>();
  #crashed: string | undefined;
  #failed: string | undefined;
  #any: string | undefined;

  constructor(batch: string) {
    this.#fold = new SummaryFold(batch);
  }

  /** True when the line is new. */
  accept(line: ResultLine): boolean {
    if (this.#seen.has(line.turn)) return false;
    this.#seen.add(line.turn);
    this.#fold.add(line);
    this.#any ??= line.turn;
    if (outcomeOf(line.status) === "failed") this.#failed ??= line.turn;
    else if (line.attempts.length > 1) this.#crashed ??= line.turn;
    return true;
  }

  /** The turn that is most worth a look: one that crashed and went on, else one that failed. */
  get worthALook(): string | undefined {
    return this.#crashed ?? this.#failed ?? this.#any;
  }

  /** Only the lines that are new. */
  async *fresh(lines: AsyncIterable<ResultLine>): AsyncGenerator<ResultLine> {
    for await (const line of lines) if (this.accept(line)) yield line;
  }

  summary(facts: { readonly turns: number; readonly durationMs?: number | undefined }): Summary {
    return this.#fold.summary(facts);
  }
}

/** Where result lines go. */
export interface ResultSink {
  /** Resolves when more may be given. */
  put(line: ResultLine): Promise<void>;
  close(): Promise<void>;
}

/** Lines on stdout. */
export function stdoutSink(output: Output): ResultSink {
  return { put: (line) => output.object(line), close: () => Promise.resolve() };
}

/** Lines in a file, which first gets `settled`. Throws `file`. */
export async function fileSink(path: string, settled: AsyncIterable<ResultLine>): Promise<ResultSink> {
  const file: ResultsFile = await openResultsFile(path, settled);
  return {
    put: async (line) => {
      await file.append(line);
    },
    close: () => file.close(),
  };
}
