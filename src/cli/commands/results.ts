import { Option, type Command } from "commander";
import { resolve } from "node:path";
import type { ResultLine } from "../../batch/result-line.ts";
import { TurnqError } from "../../domain/error.ts";
import type { CommandContext } from "../context.ts";
import { EXIT } from "../failure-text.ts";
import { openStore } from "../open-store.ts";
import { refuseToOverwrite } from "../out-file.ts";
import { OPTIONS } from "../option-parsers.ts";
import { counted } from "../quantity-text.ts";
import type { ResultFormat } from "../../batch/results-file.ts";
import { failureLines } from "../summary-view.ts";
import { fileSink, ResultCollector, stdoutSink, upToDate, type ResultSink } from "../result-collector.ts";

interface ResultsOptions {
  readonly format: ResultFormat;
  readonly messages?: boolean | undefined;
  readonly out?: string | undefined;
  readonly config?: string | undefined;
  readonly json?: boolean | undefined;
  readonly quiet?: boolean | undefined;
}

/** Adds `turnq results`. */
export function addResults(program: Command, act: (batch: string, options: ResultsOptions) => Promise<void>): void {
  program
    .command("results")
    .description("Prints a line of JSON, or a row of CSV, for each settled turn of BATCH, in the order of settling.")
    .argument("<batch>", "the batch's id")
    .addOption(new Option("--format <format>", "the form of the results").default("jsonl").choices(["jsonl", "csv"]))
    .addOption(OPTIONS.messages())
    .addOption(OPTIONS.out())
    .addOption(OPTIONS.config())
    .addOption(OPTIONS.json())
    .addOption(OPTIONS.quiet())
    .addHelpText(
      "after",
      `
Example:
  $ turnq results monday --format jsonl --messages > monday.jsonl

Next: turnq show TURN for what one turn did, turnq retry BATCH --failed to run the failures again.`,
    )
    .action(act);
}

/** Prints or writes the result lines. */
export async function results(context: CommandContext, id: string, options: ResultsOptions): Promise<number> {
  const { output, lines, cwd } = context;
  if (options.json === true && options.format === "csv" && options.out === undefined) {
    throw new TurnqError("invalid_request", "with --json nothing but JSON goes to stdout, and CSV is none", {
      hint: "Add --out FILE, or leave one of --json and --format csv out.",
    });
  }
  await refuseToOverwrite(cwd, options.out);
  const store = await openStore(context, options);
  try {
    const batch = store.turnq.batch(id);
    const { turns, states, outcomes, retired = 0 } = await batch.progress();
    const { messages } = options;
    const read = (): AsyncIterable<ResultLine> => batch.results({ messages });
    const collector = new ResultCollector(id);
    const settledLines = collector.fresh(read());
    let sink: ResultSink;
    if (options.out === undefined) {
      sink = await stdoutSink(output, options.format);
      for await (const line of settledLines) {
        if (output.gone.aborted) return EXIT.ok;
        await sink.put(line);
      }
    } else sink = await fileSink(resolve(cwd, options.out), settledLines, options.format);
    const collected = await upToDate(collector, sink, read);
    await sink.close();
    if (options.json === true && options.out !== undefined) {
      await output.object({ type: "results", batch: id, out: options.out, turns, results: collected.count });
    }
    if (options.quiet === true) return EXIT.ok;
    for (const why of failureLines(collected.summary({ turns }).failures)) output.note(why);
    const { settled } = states;
    if (retired > 0) output.note(`the results of ${counted(retired, "turn")} are gone: retention has removed them`);
    if (settled < turns)
      output.note(
        `${settled} of ${counted(turns, "turn")} are settled; the others follow when they are run: ${lines.of("work")}`,
      );
    else if (outcomes.failed + outcomes.expired > 0) output.note(`next: ${lines.of("retry", id, "--failed")}`);
    return EXIT.ok;
  } finally {
    await store.close();
  }
}
