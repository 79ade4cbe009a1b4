import type { Others } from "../batch/others-tally.ts";
import type { Summary } from "../batch/summary.ts";
import type { Batch } from "../batch-handle.ts";
import type { CommandContext } from "./context.ts";
import { EXIT } from "./failure-text.ts";
import { othersLine } from "./others-view.ts";
import { counted } from "./quantity-text.ts";
import type { ResultCollector } from "./result-collector.ts";
import type { Simulation } from "./simulation.ts";
import { failureLines, summaryLine, summaryTable } from "./summary-view.ts";

/** What a run is judged and told by. */
export interface ReportOptions {
  readonly epochs: number;
  readonly threshold?: number | undefined;
  readonly failOnError?: boolean | undefined;
  readonly json?: boolean | undefined;
  readonly quiet?: boolean | undefined;
}

/** What a run has done. */
export interface RunFacts {
  readonly batch: Batch;
  readonly collector: ResultCollector;
  readonly simulation?: Simulation | undefined;
  /** What was done for others; undefined when there were none. */
  readonly others?: Others | undefined;
  readonly durationMs: number;
  /** Where the results are; undefined when they went to stdout. */
  readonly path?: string | undefined;
}

/** Tells what a run came to; answers the summary. */
export async function tellSummary(context: CommandContext, options: ReportOptions, facts: RunFacts): Promise<Summary> {
  const { output } = context;
  const simulated = await facts.simulation?.served().catch(() => undefined);
  const { others } = facts;
  const summary: Summary = {
    ...(await countsOf(facts)),
    ...(others === undefined ? {} : { others }),
    ...(simulated === undefined ? {} : { simulated }),
  };
  if (options.json === true) {
    await output.object(summary);
    return summary;
  }
  await output.line(summaryTable(summary, output.colors));
  await output.line(summaryLine(summary));
  for (const line of failureLines(summary.failures)) await output.line(`  ${line}`);
  if (others !== undefined && others.attempts > 0) await output.line(othersLine(others));
  if (facts.path !== undefined) await output.line(`results: ${facts.path}`);
  if (options.quiet === true) return summary;
  const next = nextLines(context, options, facts, summary).map((line) => `  ${line}`);
  await output.line(`next:\n${next.join("\n")}`);
  return summary;
}

async function countsOf({ batch, collector, durationMs }: RunFacts): Promise<Summary> {
  try {
    const counts = await batch.progress();
    const whole = collector.accountsFor(counts);
    const spendByAgent = whole ? undefined : await batch.spendByAgent();
    const { turns, retired } = counts;
    return collector.summary({ turns, retired, durationMs, spend: counts, spendByAgent });
  } catch {
    // Redis is away: the Results that came are what can be told.
    return collector.summary({ turns: 0, durationMs });
  }
}

function nextLines(
  { lines, argv }: CommandContext,
  { epochs }: ReportOptions,
  { batch, collector }: RunFacts,
  { failed, expired, settled, turns }: Summary,
): string[] {
  const { id } = batch;
  const turn = collector.worthALook;
  const onward = settled < turns ? lines.goOn(argv, id) : lines.goOn(withEpochs(argv, epochs + 1), id);
  return [
    ...(turn === undefined ? [] : [lines.of("show", turn)]),
    lines.of("results", id, "--messages"),
    failed + expired > 0 ? lines.of("retry", id, "--failed") : onward,
  ];
}

/** The arguments with this many epochs. */
function withEpochs(argv: readonly string[], epochs: number): string[] {
  const at = argv.findIndex((word) => word === "--epochs" || word.startsWith("--epochs="));
  const kept = at === -1 ? argv : argv.toSpliced(at, argv[at] === "--epochs" ? 2 : 1);
  return [...kept, "--epochs", String(epochs)];
}

/** The exit code: 1 where nothing ended well, and where the caller asked for it, with a word of why. */
export function verdict({ output }: CommandContext, options: ReportOptions, summary: Summary): number {
  const { threshold, failOnError } = options;
  const { scored, passed, ok, failed, expired } = summary;
  if (threshold !== undefined && (scored === 0 || passed / scored < threshold)) {
    output.note(
      scored === 0
        ? "no turn was scored, so the threshold is not met"
        : `${passed} of ${scored} passed, below the threshold of ${threshold}`,
    );
    return EXIT.failed;
  }
  if (ok === 0) {
    output.note("not one turn ended well");
    return EXIT.failed;
  }
  if (failOnError !== true || failed + expired === 0) return EXIT.ok;
  output.note(`${counted(failed + expired, "turn")} failed`);
  return EXIT.failed;
}
