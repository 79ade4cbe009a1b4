import type { Command } from "commander";
import type { InputReport } from "../../batch/input.ts";
import type { Unserved } from "../../queue/served-agents.ts";
import type { Turnq } from "../../turnq.ts";
import { cellOptions, checkTurns, openTurns, storeTurns, type InputOptions } from "../batch-input.ts";
import type { CommandContext } from "../context.ts";
import { EXIT } from "../failure-text.ts";
import { harmless } from "../harmless.ts";
import { openStore } from "../open-store.ts";
import { withTurnOptions } from "../option-parsers.ts";
import { counted } from "../quantity-text.ts";
import { newBatchId } from "../type-next.ts";

/** Adds `turnq submit`. */
export function addSubmit(program: Command, act: (file: string, options: InputOptions) => Promise<void>): void {
  withTurnOptions(program.command("submit"))
    .description(
      "Checks each line of FILE (JSONL or CSV; - is stdin), stores its turns for workers to run, and prints the batch's id.",
    )
    .addHelpText(
      "after",
      `
Example:
  $ turnq submit tasks.jsonl --agent echo --batch monday

The same command again stores nothing twice.
Next: turnq work runs the turns, turnq results BATCH prints what came of them.`,
    )
    .action(act);
}

/** Checks and stores. */
export async function submit(context: CommandContext, file: string, options: InputOptions): Promise<number> {
  const { output, lines, argv } = context;
  const interruption = context.interruptible();
  const { signal } = interruption;
  const batch = options.batch ?? newBatchId(new Date(context.now()), Math.random);
  const input = await openTurns(context, file, signal);
  try {
    const store = await openStore(context, options);
    try {
      const cells = cellOptions(store, batch, file, options);
      const report = await checkTurns(store.turnq, input, cells, signal);
      const onStored = (count: number): void => output.live(`storing ${count} of ${report.turns} turns`);
      const stored = await storeTurns(store.turnq, input, cells, { signal, onStored });
      output.live("");
      const { added, duplicates } = stored;
      if (!stored.complete) {
        output.note(
          `stopped: ${added + duplicates} of ${report.turns} turns are stored in batch ${batch}. To go on with it: ${lines.goOn(argv, batch)}`,
        );
        return EXIT.cancelled;
      }
      const unserved = await unservedOf(store.turnq, batch, report);
      if (options.json === true)
        await output.object({ type: "submitted", batch, turns: report.turns, new: added, duplicates, unserved });
      else
        await output.line(
          `batch ${batch}: ${counted(report.turns, "turn")}, ${added} new, ${duplicates} stored before`,
        );
      if (options.quiet !== true) {
        if (duplicates > 0)
          output.note(
            "turns that were stored before keep the limits, retry rules and labels that they were first submitted with",
          );
        for (const { message } of unserved) output.note(harmless(`warning: ${message}`));
        output.note(`next:\n  ${lines.of("work")}\n  ${lines.of("results", batch)}`);
      }
      return EXIT.ok;
    } finally {
      await store.close();
    }
  } finally {
    await input.remove();
  }
}

/** For whom nobody is there, unless all of the batch has been run before. */
async function unservedOf(turnq: Turnq, batch: string, { places }: InputReport): Promise<Unserved[]> {
  const { turns, states } = await turnq.batch(batch).progress();
  return states.settled === turns ? [] : turnq.unserved(places);
}
