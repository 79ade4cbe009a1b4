import { join } from "node:path";
import type { InputReport } from "../batch/input.ts";
import { OthersTally, type Others } from "../batch/others-tally.ts";
import type { Batch } from "../batch-handle.ts";
import { TurnqError } from "../domain/error.ts";
import type { TurnRequest } from "../domain/turn-request.ts";
import type { OtherTurns } from "../queue/other-turns.ts";
import type { ModelSettingsInput } from "../simulator/model-settings.ts";
import type { WorkerHandle } from "../worker-handle.ts";
import { abandonedText, phaseText } from "./close-text.ts";
import type { CommandContext } from "./context.ts";
import type { Interruption } from "./interruption.ts";
import { laneSettings } from "./lane-settings.ts";
import type { OpenStore } from "./open-store.ts";
import { cancelLines, countedOthers, waitingText } from "./others-view.ts";
import { startSimulation, type Simulation } from "./simulation.ts";

/** How long a shutdown may take before what still runs is left to be found lost, in ms. */
const CLOSE_WITHIN_MS = 10_000;

/** What a run asks of its worker. */
export interface RunWorkerOptions {
  readonly concurrency: number;
  readonly sim?: ModelSettingsInput | undefined;
  /** Do not begin while turns of others wait. */
  readonly only?: boolean | undefined;
  readonly quiet?: boolean | undefined;
}

/** Where turns are, and whose they are. */
export interface Work {
  readonly agents: ReadonlySet<string>;
  readonly lanes: Iterable<string>;
}

/** Where the turns of an input go. */
export function workOf({ places }: InputReport): Work {
  return { agents: new Set(places.map(({ agent }) => agent)), lanes: places.map(({ lane }) => lane) };
}

/**
 * The worker inside of a run: for the agents of its batch and for no other. Turns of others in its lanes that are for
 * these agents it takes, too, since a lane is in order; of them it tells before and after.
 */
export class RunWorker {
  readonly #context: CommandContext;
  readonly #options: RunWorkerOptions;
  readonly #store: OpenStore;
  readonly #batch: Batch;
  readonly #tally = new OthersTally();
  #waited = countedOthers({ turns: 0, batches: new Map(), noBatch: 0, named: [], unnamed: 0, exact: true });
  #worker: WorkerHandle | undefined;
  #simulation: Simulation | undefined;

  constructor(context: CommandContext, options: RunWorkerOptions, store: OpenStore, batch: Batch) {
    this.#context = context;
    this.#options = options;
    this.#store = store;
    this.#batch = batch;
  }

  /** The simulated model that answers, when one does. */
  get simulation(): Simulation | undefined {
    return this.#simulation;
  }

  /** What was done for others; undefined when there were none. */
  get others(): Others | undefined {
    return this.#tally.others(this.#waited);
  }

  /** With `--only`: throws `others_waiting` when turns of others wait where this work is. `stored` says what there is already. */
  async refuseOthers(work: Work, stored: string): Promise<void> {
    if (this.#options.only !== true) return;
    const others = await this.#look(work);
    if (others.turns === 0) return;
    const cancels = cancelLines(others, this.#context.lines).join("; ");
    throw new TurnqError("others_waiting", waitingText(others), {
      hint: `${stored} Leave --only out, wait until they are run, or cancel them: ${cancels}`,
      details: { others: countedOthers(others) },
    });
  }

  /** Starts it, and tells of what waits for it that is not of the batch. Throws `others_waiting` with `--only`. */
  async start(work: Work, requests: () => AsyncIterable<TurnRequest>, interruption: Interruption): Promise<void> {
    if (this.#options.only === true)
      await this.refuseOthers(work, "The turns of the batch are stored, and none was run.");
    else await this.#tellOfOthers(work);
    const { agents, simulated } = this.#store;
    const simulation = await startSimulation({
      agents: new Map([...simulated].filter(([name]) => work.agents.has(name))),
      settings: this.#options.sim,
      requests,
      dir: join(this.#context.cwd, ".turnq", "tmp"),
    });
    this.#simulation = simulation;
    if (simulation !== undefined && this.#options.quiet !== true)
      this.#context.output.note(`a SIMULATED model answers, no real one; what it served: ${simulation.url}/served`);
    const worker = this.#store.turnq.worker({
      agents: [
        ...agents.filter(({ name }) => work.agents.has(name) && !simulated.has(name)),
        ...(simulation?.agents ?? []),
      ],
      lanes: [...work.lanes],
      concurrency: this.#options.concurrency,
      onEnd: (ended) => {
        if (ended.batch !== this.#batch.id) this.#tally.add(ended);
      },
      ...laneSettings(this.#store),
    });
    this.#worker = worker;
    interruption.onForce(() => worker.force());
    await worker.start();
  }

  /** Takes no more turns, and hands back what runs. */
  async close(): Promise<void> {
    const { output } = this.#context;
    const say = (text: string | undefined): void => (text === undefined ? undefined : output.note(text));
    const report = await this.#worker?.close({ limitMs: CLOSE_WITHIN_MS, onPhase: (phase) => say(phaseText(phase)) });
    if (report !== undefined) say(abandonedText(report));
  }

  /** True once it was started. */
  get started(): boolean {
    return this.#worker !== undefined;
  }

  /** Ends the simulated model. */
  async end(): Promise<void> {
    await this.#simulation?.close();
  }

  async #tellOfOthers(work: Work): Promise<void> {
    const others = await this.#look(work);
    this.#waited = countedOthers(others);
    if (others.turns === 0) return;
    const { output, lines } = this.#context;
    // No hint: somebody pays for it.
    output.note(waitingText(others));
    const cancels = cancelLines(others, lines).map((line) => `\n  ${line}`);
    output.note(`with --only a run does not begin while others wait; to end them:${cancels.join("")}`);
  }

  /** A worker takes turns from the lanes that its agents have of their own, too. */
  #look({ agents, lanes }: Work): Promise<OtherTurns> {
    const known = this.#store.turnq.knownAgents();
    const own = known.filter(({ name }) => agents.has(name)).map(({ lane }) => lane);
    const here = this.#store.agents.map(({ name }) => name).filter((name) => agents.has(name));
    return this.#batch.others({ lanes: [...own, ...lanes], agents: new Set(here) });
  }
}
