import type { Command } from "commander";
import { TurnqError } from "../../domain/error.ts";
import type { CommandContext } from "../context.ts";
import { EXIT } from "../failure-text.ts";
import { openStore } from "../open-store.ts";
import { OPTIONS } from "../option-parsers.ts";
import { counted } from "../quantity-text.ts";

interface RetryOptions {
  readonly failed?: boolean | undefined;
  readonly config?: string | undefined;
  readonly json?: boolean | undefined;
  readonly quiet?: boolean | undefined;
}

/** Adds `turnq retry`. */
export function addRetry(program: Command, act: (batch: string, options: RetryOptions) => Promise<void>): void {
  program
    .command("retry")
    .summary("have the failed turns of a batch run again")
    .description(
      "Opens a new generation of each turn of BATCH that failed or expired. The Results until now stay readable.",
    )
    .argument("<batch>", "the batch's id")
    .option("--failed", "the turns that failed or expired")
    .addOption(OPTIONS.config())
    .addOption(OPTIONS.json())
    .addOption(OPTIONS.quiet())
    .addHelpText(
      "after",
      `
Example:
  $ turnq retry monday --failed

Next: turnq work, or turnq run with the batch's file and --batch, runs them.`,
    )
    .action(act);
}

/** Opens new generations. */
export async function retry(context: CommandContext, id: string, options: RetryOptions): Promise<number> {
  const { output, lines } = context;
  if (options.failed !== true) {
    throw new TurnqError("invalid_request", "say which turns are to be run again.", {
      hint: `Type ${lines.of("retry", id, "--failed")}.`,
    });
  }
  const store = await openStore(context, options);
  try {
    const batch = store.turnq.batch(id);
    await batch.progress();
    const retried = await batch.retry();
    if (options.json === true) await output.object({ type: "retried", batch: id, turns: retried });
    else await output.line(`batch ${id}: ${counted(retried, "turn")} to be run again`);
    if (retried > 0 && options.quiet !== true) {
      output.note(
        `next, to run them:\n  ${lines.of("work")}\n  ${lines.of("run", "FILE", "--batch", id)} (the file that the batch was submitted with)`,
      );
    }
    return EXIT.ok;
  } finally {
    await store.close();
  }
}
