import type { Command } from "commander";
import { resolve } from "node:path";
import type { InputReport } from "../../batch/input.ts";
import type { ReadableInput } from "../../batch/spool.ts";
import type { Batch } from "../../batch-handle.ts";
import type { BatchPlace } from "../../queue/batch-view.ts";
import {
  cellOptions,
  checkTurns,
  openTurns,
  storeTurns,
  turnsOf,
  type InputOptions,
  type StoredTurns,
} from "../batch-input.ts";
import type { CommandContext } from "../context.ts";
import { EXIT } from "../failure-text.ts";
import { followBatch } from "../follow-batch.ts";
import type { Interruption } from "../interruption.ts";
import { openStore, type OpenStore } from "../open-store.ts";
import { OPTIONS, withTurnOptions } from "../option-parsers.ts";
import { refuseToOverwrite } from "../out-file.ts";
import { probeResultsFile } from "../../batch/results-file.ts";
import { progressStyle, showProgress } from "../progress-view.ts";
import { counted } from "../quantity-text.ts";
import { fileSink, ResultCollector, stdoutSink, upToDate, type ResultSink } from "../result-collector.ts";
import { resultsPath } from "../results-path.ts";
import { tellSummary, verdict } from "../run-report.ts";
import { RunWorker, workOf, type RunWorkerOptions } from "../run-worker.ts";
import { newBatchId } from "../type-next.ts";

interface RunOptions extends InputOptions, RunWorkerOptions {
  readonly threshold?: number | undefined;
  readonly failOnError?: boolean | undefined;
  readonly out?: string | undefined;
  readonly messages?: boolean | undefined;
}

/** Adds `turnq run`. */
export function addRun(program: Command, act: (file: string, options: RunOptions) => Promise<void>): void {
  withTurnOptions(program.command("run"))
    .description(
      "Submits each line of FILE (JSONL or CSV; - is stdin) as a turn for each agent, works on them, and writes the results while they come.",
    )
    .addOption(OPTIONS.concurrency())
    .addOption(OPTIONS.only())
    .addOption(OPTIONS.threshold())
    .addOption(OPTIONS.failOnError())
    .addOption(OPTIONS.out())
    .addOption(OPTIONS.sim())
    .addOption(OPTIONS.messages())
    .addHelpText(
      "after",
      `
Example:
  $ turnq run tasks.jsonl --agent echo --expect equals

The same command with the --batch that it prints goes on where it ended: what is settled is not run again.
Next: turnq show TURN for what one turn did, turnq retry BATCH --failed to run the failures again.`,
    )
    .action(act);
}

/** Submits, works and reports. */
export async function run(context: CommandContext, file: string, options: RunOptions): Promise<number> {
  await refuseToOverwrite(context.cwd, options.out, file);
  const interruption = context.interruptible();
  const input = await openTurns(context, file, interruption.signal);
  try {
    const store = await openStore(context, options);
    try {
      return await new Run(context, file, options, store, interruption).go(input);
    } finally {
      await store.close();
    }
  } finally {
    await input.remove();
  }
}

class Run {
  readonly #context: CommandContext;
  readonly #file: string;
  readonly #options: RunOptions;
  readonly #store: OpenStore;
  readonly #interruption: Interruption;
  /** Aborted when the run is to end early: by a signal, or since nobody reads it any more. */
  readonly #early: AbortSignal;
  readonly #batch: Batch;
  readonly #worker: RunWorker;
  /** The agents that its turns name. */
  #agents: ReadonlySet<string> = new Set();
  #collector: ResultCollector;
  readonly #startedAt: number;

  constructor(
    context: CommandContext,
    file: string,
    options: RunOptions,
    store: OpenStore,
    interruption: Interruption,
  ) {
    this.#context = context;
    this.#file = file;
    this.#options = options;
    this.#store = store;
    this.#interruption = interruption;
    this.#early = AbortSignal.any([interruption.signal, context.output.gone]);
    this.#startedAt = context.now();
    const id = options.batch ?? newBatchId(new Date(this.#startedAt), Math.random);
    this.#batch = store.turnq.batch(id);
    this.#worker = new RunWorker(context, options, store, this.#batch);
    this.#collector = new ResultCollector(id);
  }

  async go(input: ReadableInput): Promise<number> {
    const { output } = this.#context;
    const { turnq } = this.#store;
    const cells = cellOptions(this.#store, this.#batch.id, this.#file, { ...this.#options, runsHere: true });
    const report = await checkTurns(turnq, input, cells, this.#early);
    await probeResultsFile(this.#resultsPath());
    if (!(await this.#isComplete(report))) await this.#worker.refuseOthers(workOf(report), "Nothing was stored.");
    this.#hint(`batch ${this.#batch.id}: ${sizeText(report)}. To go on with it: ${this.#goOn()}`);
    const stored = await storeTurns(turnq, input, cells, {
      signal: this.#early,
      onStored: (count) => output.live(`storing ${count} of ${report.turns} turns`),
    });
    output.live("");
    if (!stored.complete)
      return this.#cancelled(`${stored.added + stored.duplicates} of ${report.turns} turns are stored`);
    await this.#tellOfStored(stored, report);
    try {
      await this.#work(() => turnsOf(input, cells));
      return await this.#report();
    } finally {
      await this.#worker.end();
    }
  }

  /** True when the batch seems to have all these turns, settled: then there is nothing to run. */
  async #isComplete(report: InputReport): Promise<boolean> {
    if (!(await this.#batch.exists())) return false;
    const { turns, states } = await this.#batch.progress();
    return states.settled === turns && report.turns <= turns;
  }

  /** Something to know that is no fault: not with `--quiet`. */
  #hint(text: string): void {
    if (this.#options.quiet !== true) this.#context.output.note(text);
  }

  async #tellOfStored({ added, duplicates }: StoredTurns, report: InputReport): Promise<void> {
    if (duplicates > 0) {
      this.#hint(
        `${added} new, ${duplicates} stored before: these keep the limits, retry rules and labels that they were first submitted with`,
      );
    }
    this.#agents = new Set([...workOf(report).agents, ...(await this.#otherAgents(added + duplicates))]);
    const own = this.#store.agents.map(({ name }) => name);
    const elsewhere = [...this.#agents].filter((agent) => !own.includes(agent));
    if (elsewhere.length > 0)
      this.#hint(`not in this configuration, so their turns wait for another worker: ${elsewhere.join(", ")}`);
  }

  /** The agents of turns that are in the batch already and not in this input, as with `--limit`: it is done when they are. */
  async #otherAgents(given: number): Promise<ReadonlySet<string>> {
    const { turns, retired = 0 } = await this.#batch.progress();
    const agents = new Set<string>();
    if (retired > 0)
      this.#hint(
        `retention has removed ${counted(retired, "turn")} that the batch had: those of them that are in the input are new ones, and run anew`,
      );
    const others = turns - retired - given;
    if (others <= 0) return agents;
    this.#hint(`${counted(others, "turn")} more of the batch, stored before, ${others === 1 ? "is" : "are"} run too`);
    for await (const { agent, state } of this.#store.turnq.turns.list({ batch: this.#batch.id }))
      if (state !== "settled") agents.add(agent);
    return agents;
  }

  /** Runs and collects until all is settled or it is to end early. */
  async #work(turns: () => ReturnType<typeof turnsOf>): Promise<void> {
    const { output, now } = this.#context;
    const place: BatchPlace = new Map();
    const sink = await this.#openSink(place);
    await this.#startWorker(turns);
    const ended = new AbortController();
    const progress = showProgress({
      output,
      style: progressStyle(output, this.#options),
      progress: () => this.#batch.progress(),
      now,
      signal: AbortSignal.any([ended.signal, this.#early]),
    });
    try {
      const { messages } = this.#options;
      const lines = followBatch(this.#batch, {
        messages,
        place,
        signal: this.#early,
        onAway: (away) => this.#tellOfRedis(away),
        mayReturn: () => this.#store.redis.mayReturn(),
      });
      try {
        for await (const line of this.#collector.fresh(lines)) await sink.put(line);
      } finally {
        await this.#closeWorker();
      }
      // What settled while the worker closed.
      if (this.#early.aborted) await this.#drain(place, sink);
      else await this.#refresh(sink);
    } finally {
      ended.abort();
      await progress;
      await sink.close();
    }
  }

  async #openSink(place: BatchPlace): Promise<ResultSink> {
    const { output } = this.#context;
    const path = this.#resultsPath();
    if (path === undefined) return await stdoutSink(output);
    return fileSink(path, this.#collector.fresh(this.#batch.results({ messages: this.#options.messages, place })));
  }

  #resultsPath(): string | undefined {
    const { out, json } = this.#options;
    const { cwd } = this.#context;
    if (out !== undefined) return resolve(cwd, out);
    return json === true ? undefined : resultsPath(cwd, this.#batch.id);
  }

  async #startWorker(requests: () => ReturnType<typeof turnsOf>): Promise<void> {
    const { turns, states } = await this.#batch.progress();
    if (states.settled === turns || this.#early.aborted) return;
    const work = { agents: this.#agents, lanes: await this.#batch.lanes() };
    await this.#worker.start(work, requests, this.#interruption);
  }

  async #closeWorker(): Promise<void> {
    if (this.#worker.started && this.#early.aborted)
      this.#context.output.note("stopping: turns that run are ended and handed back (once more to force)");
    await this.#worker.close();
  }

  async #drain(place: BatchPlace, sink: ResultSink): Promise<void> {
    try {
      const lines = this.#batch.results({ messages: this.#options.messages, place });
      for await (const line of this.#collector.fresh(lines)) await sink.put(line);
      await this.#refresh(sink);
    } catch {
      // They are in the store, and the next run writes them.
    }
  }

  /** A turn may have been retried and settled anew while its batch was followed. */
  async #refresh(sink: ResultSink): Promise<void> {
    const { messages } = this.#options;
    this.#collector = await upToDate(this.#collector, sink, () => this.#batch.results({ messages }));
  }

  #tellOfRedis(away: boolean): void {
    const { output } = this.#context;
    output.note(away ? "Redis does not answer; what runs goes on, results follow when it is back" : "Redis is back");
  }

  async #report(): Promise<number> {
    if (this.#context.output.gone.aborted) return EXIT.ok;
    const summary = await tellSummary(this.#context, this.#options, {
      batch: this.#batch,
      collector: this.#collector,
      simulation: this.#worker.simulation,
      others: this.#worker.others,
      durationMs: this.#context.now() - this.#startedAt,
      path: this.#resultsPath(),
    });
    if (this.#interruption.signal.aborted)
      return this.#cancelled(`${summary.settled} of ${summary.turns} turns are settled`);
    const code = verdict(this.#context, this.#options, summary);
    this.#hint(`batch ${this.#batch.id} is complete. To go on with it: ${this.#goOn()}`);
    return code;
  }

  #cancelled(what: string): number {
    const { output } = this.#context;
    if (!this.#interruption.signal.aborted) return EXIT.ok;
    output.note(`stopped: ${what} in batch ${this.#batch.id}. To go on with it: ${this.#goOn()}`);
    return EXIT.cancelled;
  }

  #goOn(): string {
    return this.#context.lines.goOn(this.#context.argv, this.#batch.id);
  }
}

function sizeText({ samples, turns }: InputReport): string {
  return turns === samples ? counted(turns, "turn") : `${counted(samples, "sample")}, ${counted(turns, "turn")}`;
}
