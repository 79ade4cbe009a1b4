import type { Command } from "commander";
import { join, resolve } from "node:path";
import type { InputReport } from "../../batch/input.ts";
import type { ReadableInput } from "../../batch/spool.ts";
import type { Batch } from "../../batch-handle.ts";
import type { BatchPlace } from "../../queue/batch-view.ts";
import type { WorkerHandle } from "../../worker-handle.ts";
import {
  cellOptions,
  checkTurns,
  openTurns,
  storeTurns,
  turnsOf,
  type InputOptions,
  type StoredTurns,
} from "../batch-input.ts";
import { abandonedText, phaseText } from "../close-text.ts";
import type { CommandContext } from "../context.ts";
import { EXIT } from "../failure-text.ts";
import { followBatch } from "../follow-batch.ts";
import type { Interruption } from "../interruption.ts";
import { laneSettings } from "../lane-settings.ts";
import { openStore, type OpenStore } from "../open-store.ts";
import { OPTIONS, withTurnOptions } from "../option-parsers.ts";
import { refuseToOverwrite } from "../out-file.ts";
import { probeResultsFile } from "../../batch/results-file.ts";
import { progressStyle, showProgress } from "../progress-view.ts";
import { counted } from "../quantity-text.ts";
import { fileSink, ResultCollector, stdoutSink, upToDate, type ResultSink } from "../result-collector.ts";
import { resultsPath } from "../results-path.ts";
import { tellSummary, verdict } from "../run-report.ts";
import { startSimulation, type Simulation } from "../simulation.ts";
import type { ModelSettingsInput } from "../../simulator/model-settings.ts";
import { newBatchId } from "../type-next.ts";

interface RunOptions extends InputOptions {
  readonly concurrency: number;
  readonly threshold?: number | undefined;
  readonly failOnError?: boolean | undefined;
  readonly out?: string | undefined;
  readonly sim?: ModelSettingsInput | undefined;
  readonly messages?: boolean | undefined;
}

/** How long a shutdown may take before what still runs is left to be found lost, in ms. */
const CLOSE_WITHIN_MS = 10_000;

/** Adds `turnq run`. */
export function addRun(program: Command, act: (file: string, options: RunOptions) => Promise<void>): void {
  withTurnOptions(program.command("run"))
    .description(
      "Submits each line of FILE (JSONL or CSV; - is stdin) as a turn for each agent, works on them, and writes the results while they come.",
    )
    .addOption(OPTIONS.concurrency())
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
  /** The agents that its turns name. */
  #agents: ReadonlySet<string> = new Set();
  #collector: ResultCollector;
  #simulation: Simulation | undefined;
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
    this.#collector = new ResultCollector(id);
  }

  async go(input: ReadableInput): Promise<number> {
    const { output } = this.#context;
    const { turnq } = this.#store;
    const cells = cellOptions(this.#store, this.#batch.id, this.#file, { ...this.#options, runsHere: true });
    const report = await checkTurns(turnq, input, cells, this.#early);
    await probeResultsFile(this.#resultsPath());
    this.#hint(`batch ${this.#batch.id}: ${sizeText(report)}. To go on with it: ${this.#goOn()}`);
    const stored = await storeTurns(turnq, input, cells, {
      signal: this.#early,
      onStored: (count) => output.live(`storing ${count} of ${report.turns} turns`),
    });
    output.live("");
    if (!stored.complete)
      return this.#cancelled(`${stored.added + stored.duplicates} of ${report.turns} turns are stored`);
    await this.#tellOfStored(stored);
    try {
      await this.#work(() => turnsOf(input, cells));
      return await this.#report();
    } finally {
      await this.#simulation?.close();
    }
  }

  /** Something to know that is no fault: not with `--quiet`. */
  #hint(text: string): void {
    if (this.#options.quiet !== true) this.#context.output.note(text);
  }

  async #tellOfStored({ added, duplicates, agents }: StoredTurns): Promise<void> {
    if (duplicates > 0) {
      this.#hint(
        `${added} new, ${duplicates} stored before: these keep the limits, retry rules and labels that they were first submitted with`,
      );
    }
    this.#agents = new Set([...agents, ...(await this.#otherAgents(added + duplicates))]);
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
    const worker = await this.#startWorker(turns);
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
        await this.#closeWorker(worker);
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

  /** A worker for the agents of these turns, and for no other: what else waits in the store is not this command's to pay for. */
  async #startWorker(requests: () => ReturnType<typeof turnsOf>): Promise<WorkerHandle | undefined> {
    const { turns, states } = await this.#batch.progress();
    if (states.settled === turns || this.#early.aborted) return undefined;
    const { agents, simulated } = this.#store;
    const simulation = await startSimulation({
      agents: new Map([...simulated].filter(([name]) => this.#agents.has(name))),
      settings: this.#options.sim,
      requests,
      dir: join(this.#context.cwd, ".turnq", "tmp"),
    });
    this.#simulation = simulation;
    if (simulation !== undefined)
      this.#hint(`a SIMULATED model answers, no real one; what it served: ${simulation.url}/served`);
    const worker = this.#store.turnq.worker({
      agents: [
        ...agents.filter(({ name }) => this.#agents.has(name) && !simulated.has(name)),
        ...(simulation?.agents ?? []),
      ],
      lanes: await this.#batch.lanes(),
      concurrency: this.#options.concurrency,
      ...laneSettings(this.#store),
    });
    this.#interruption.onForce(() => worker.force());
    await worker.start();
    return worker;
  }

  async #closeWorker(worker: WorkerHandle | undefined): Promise<void> {
    const { output } = this.#context;
    if (worker === undefined) return;
    if (this.#early.aborted) output.note("stopping: turns that run are ended and handed back (once more to force)");
    const say = (text: string | undefined): void => (text === undefined ? undefined : output.note(text));
    const report = await worker.close({ limitMs: CLOSE_WITHIN_MS, onPhase: (phase) => say(phaseText(phase)) });
    say(abandonedText(report));
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
      simulation: this.#simulation,
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
