import type { Command } from "commander";
import type { CommandContext } from "../context.ts";
import { EXIT } from "../failure-text.ts";
import { openStore } from "../open-store.ts";
import { OPTIONS, wholeNumber } from "../option-parsers.ts";
import { Option } from "commander";
import { plainTable } from "../plain-table.ts";
import { costText, tokensText } from "../quantity-text.ts";
import type { BatchInfo } from "../../queue/lane-view.ts";

interface ListOptions {
  readonly limit: number;
  readonly config?: string | undefined;
  readonly json?: boolean | undefined;
  readonly quiet?: boolean | undefined;
}

/** Adds `turnq list`. */
export function addList(program: Command, act: (options: ListOptions) => Promise<void>): void {
  program
    .command("list")
    .description("Lists the newest batches of the store, with what became of their turns.")
    .addOption(new Option("--limit <n>", "at most so many").argParser(wholeNumber).default(20))
    .addOption(OPTIONS.config())
    .addOption(OPTIONS.json())
    .addOption(OPTIONS.quiet())
    .addHelpText(
      "after",
      `
Example:
  $ turnq list --limit 5

Next: turnq watch BATCH, turnq results BATCH.`,
    )
    .action(act);
}

/** Lists batches. */
export async function list(context: CommandContext, options: ListOptions): Promise<number> {
  const { output, lines } = context;
  const store = await openStore(context, options);
  try {
    const batches = await store.turnq.batches.list({ limit: options.limit });
    if (options.json === true) {
      for (const batch of batches) await output.object({ type: "batch", ...batch });
      return EXIT.ok;
    }
    if (batches.length > 0) await output.line(plainTable(HEAD, batches.map(rowOf), output.colors));
    if (options.quiet === true) return EXIT.ok;
    const [newest] = batches;
    output.note(
      newest === undefined
        ? `no batches yet. Next: ${lines.of("run", "FILE")}`
        : `next: ${lines.of("watch", newest.batch)}`,
    );
    return EXIT.ok;
  } finally {
    await store.close();
  }
}

const HEAD = ["batch", "submitted", "turns", "open", "ok", "failed", "cancelled", "passed", "tokens", "cost"];

function rowOf({ batch, submittedAt, turns, states, outcomes, scored, passed, usage }: BatchInfo): string[] {
  return [
    batch,
    new Date(submittedAt).toISOString().slice(0, 16).replace("T", " "),
    String(turns),
    String(turns - states.settled),
    String(outcomes.ok),
    String(outcomes.failed + outcomes.expired),
    String(outcomes.cancelled),
    scored === 0 ? "-" : `${passed}/${scored}`,
    tokensText(usage),
    costText(usage),
  ];
}
