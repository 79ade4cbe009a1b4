import type { Command } from "commander";
import { once } from "node:events";
import { join, resolve } from "node:path";
import { didYouMean } from "../../parse/nearest.ts";
import { TurnqError } from "../../domain/error.ts";
import { abandonedText, phaseText } from "../close-text.ts";
import type { ModelSettingsInput } from "../../simulator/model-settings.ts";
import type { CommandContext } from "../context.ts";
import { EXIT } from "../failure-text.ts";
import { openStore, type OpenStore } from "../open-store.ts";
import { laneSettings } from "../lane-settings.ts";
import { startSimulation, type Simulation } from "../simulation.ts";
import { keepReadyFile } from "../ready-file.ts";
import { progressStyle } from "../progress-view.ts";
import { showWork } from "../work-progress.ts";
import { watchLoop, type LoopWatch } from "../../process/watchdog.ts";
import { OPTIONS } from "../option-parsers.ts";
import type { WorkerHandle } from "../../worker-handle.ts";

interface WorkOptions {
  readonly agent?: readonly string[] | undefined;
  readonly allowMissing?: boolean | undefined;
  readonly concurrency: number;
  readonly config?: string | undefined;
  readonly lane?: string | undefined;
  readonly readyFile?: string | undefined;
  readonly sim?: ModelSettingsInput | undefined;
  readonly json?: boolean | undefined;
  readonly quiet?: boolean | undefined;
}

/** How long a shutdown may take, in ms. */
const CLOSE_WITHIN_MS = 25_000;

/** Adds `turnq work`. */
export function addWork(program: Command, act: (options: WorkOptions) => Promise<void>): void {
  program
    .command("work")
    .description("Takes turns of the configuration's agents and runs them, until SIGINT or SIGTERM.")
    .addOption(OPTIONS.agent())
    .option("--allow-missing", "start without the agents that cannot run here, and try them again every 10 s")
    .addOption(OPTIONS.concurrency())
    .addOption(OPTIONS.config())
    .addOption(OPTIONS.lane("a lane to take turns from besides the agents' own"))
    .option("--ready-file <file>", "a file that is there, and written anew every second, while the worker is ready")
    .addOption(OPTIONS.sim())
    .addOption(OPTIONS.json())
    .addOption(OPTIONS.quiet())
    .addHelpText(
      "after",
      `
Example:
  $ turnq work --agent echo --concurrency 20

A signal ends what runs and hands it back; a second one forces.
Next: turnq submit FILE in another terminal, turnq results BATCH for what came of it.`,
    )
    .action(act);
}

/** A worker until a signal. Exits 0 after a SIGTERM that left nothing behind, 130 after Ctrl-C. */
export async function work(context: CommandContext, options: WorkOptions): Promise<number> {
  const { output, lines, now } = context;
  const store = await openStore(context, options);
  let simulation: Simulation | undefined;
  let watch: LoopWatch | undefined;
  let endReady: (() => Promise<void>) | undefined;
  let started = 0;
  try {
    const agents = chosenAgents(store, options.agent);
    const interruption = context.interruptible();
    // Not the built-in one: a worker that nobody asked to simulate does not.
    const names = agents
      .map(({ name }) => name)
      .filter((name) => options.agent !== undefined || name in store.config.agents);
    simulation = await startSimulation({
      agents: new Map([...store.simulated].filter(([name]) => names.includes(name))),
      settings: options.sim,
      dir: join(context.cwd, ".turnq", "tmp"),
    });
    const working = [...agents.filter(({ name }) => !store.simulated.has(name)), ...(simulation?.agents ?? [])];
    const worker = store.turnq.worker({
      agents: working,
      lanes: options.lane === undefined ? [] : [options.lane],
      concurrency: options.concurrency,
      allowMissing: options.allowMissing,
      onStart: () => {
        started += 1;
        watch?.beat();
      },
      ...laneSettings(store),
    });
    interruption.onForce(() => worker.force());
    watch = watchLoop(() => worker.deadlineAt);
    await worker.start();
    if (options.readyFile !== undefined)
      endReady = keepReadyFile(resolve(context.cwd, options.readyFile), () => worker.readiness());
    if (options.quiet !== true)
      tellStart(context, store, worker, { agents: working, concurrency: options.concurrency });
    const ended = new AbortController();
    const progress = showWork({
      output,
      style: progressStyle(output, options),
      counts: () => ({ running: worker.running, ended: started - worker.running }),
      now,
      signal: ended.signal,
    });
    if (!interruption.signal.aborted) await once(interruption.signal, "abort");
    await endReady?.();
    output.note("stopping: turns that run are ended and handed back (once more to force)");
    const say = (text: string | undefined): void => (text === undefined ? undefined : output.note(text));
    const report = await worker.close({ limitMs: CLOSE_WITHIN_MS, onPhase: (phase) => say(phaseText(phase)) });
    ended.abort();
    await progress;
    say(abandonedText(report));
    output.note(`stopped. To go on: ${lines.of(...context.argv)}`);
    if (interruption.name === "SIGINT") return EXIT.cancelled;
    return report.abandoned === 0 ? EXIT.ok : EXIT.failed;
  } finally {
    watch?.end();
    await endReady?.();
    await simulation?.close();
    await store.close();
  }
}

/** What it does now, and what to type next. */
function tellStart(
  { output, lines }: CommandContext,
  { redis }: OpenStore,
  worker: WorkerHandle,
  { agents, concurrency }: Pick<OpenStore, "agents"> & Pick<WorkOptions, "concurrency">,
): void {
  const { missing = [] } = worker.readiness();
  const served = agents.map(({ name }) => name).filter((name) => missing.every(({ agent }) => agent !== name));
  const whose = served.length === 0 ? "no agent yet" : served.join(", ");
  output.note(`taking turns of ${whose}, ${concurrency} at once, from ${redis.shown}`);
  output.note(`next, in another terminal: ${lines.of("submit", "FILE", "--agent", served[0] ?? "echo")}`);
}

function chosenAgents({ agents }: OpenStore, wanted: readonly string[] | undefined): OpenStore["agents"] {
  if (wanted === undefined) return agents;
  const names = agents.map(({ name }) => name);
  for (const name of wanted) {
    if (names.includes(name)) continue;
    throw new TurnqError(
      "unknown_agent",
      `unknown agent "${name}"${didYouMean(name, names)}; known are ${names.join(", ")}`,
      { where: "--agent" },
    );
  }
  return agents.filter(({ name }) => wanted.includes(name));
}
