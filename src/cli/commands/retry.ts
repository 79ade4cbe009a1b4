import type { Command } from "commander";
import type { RetryWhich } from "../../batch-handle.ts";
import { TurnqError } from "../../domain/error.ts";
import type { CommandContext } from "../context.ts";
import { EXIT } from "../failure-text.ts";
import { findWork, type FoundWork } from "../find-work.ts";
import { openStore, type OpenStore } from "../open-store.ts";
import { OPTIONS } from "../option-parsers.ts";
import { counted } from "../quantity-text.ts";

interface RetryOptions extends RetryWhich {
  readonly lane?: string | undefined;
  readonly config?: string | undefined;
  readonly json?: boolean | undefined;
  readonly quiet?: boolean | undefined;
}

/** Adds `turnq retry`. */
export function addRetry(program: Command, act: (id: string, options: RetryOptions) => Promise<void>): void {
  program
    .command("retry")
    .description(
      "Opens a new generation of TURN, or of each turn of BATCH that the options name. The Results until now stay readable.",
    )
    .argument("<turn|batch>", "the id")
    .option("--failed", "of a batch: the turns that failed or expired")
    .option("--missed", "of a batch: the turns that ended well and did not pass their checks")
    .option("--cancelled", "of a batch: the turns that were cancelled")
    .addOption(OPTIONS.lane("the lane of the turn"))
    .addOption(OPTIONS.config())
    .addOption(OPTIONS.json())
    .addOption(OPTIONS.quiet())
    .addHelpText(
      "after",
      `
Example:
  $ turnq retry monday --failed --cancelled

Next: turnq work, or turnq run with the batch's file and --batch, runs them.`,
    )
    .action(act);
}

/** Opens new generations. */
export async function retry(context: CommandContext, id: string, options: RetryOptions): Promise<number> {
  const { output, lines } = context;
  const store = await openStore(context, options);
  try {
    const found = await findWork(store.turnq, id, options);
    const { agents, retried } = await retryFound(context, store, found, options);
    const what = found.kind === "batch" ? { batch: id } : { turn: id };
    if (options.json === true) await output.object({ type: "retried", ...what, turns: retried });
    else await output.line(`${found.kind} ${id}: ${counted(retried, "turn")} to be run again`);
    if (retried === 0 || options.quiet === true) return EXIT.ok;
    output.note(`next, to run them:\n  ${lines.of("work", ...agents.flatMap((agent) => ["--agent", agent]))}`);
    if (found.kind === "batch")
      output.note(
        `  ${lines.of("run", "FILE", "--batch", id)} (the file and options that the batch was submitted with)`,
      );
    return EXIT.ok;
  } finally {
    await store.close();
  }
}

async function retryFound(
  { lines }: CommandContext,
  { turnq }: OpenStore,
  found: FoundWork,
  { failed, missed, cancelled }: RetryOptions,
): Promise<{ readonly retried: number; readonly agents: readonly string[] }> {
  if (found.kind === "turn") {
    const { agent, state } = await found.turn.row();
    if (state !== "settled") {
      throw new TurnqError("invalid_request", `it is ${state}: only a settled turn can be run again`, {
        where: `turn ${found.turn.id}`,
        hint: `Type ${lines.of("cancel", found.turn.id)} first, or wait.`,
      });
    }
    return { retried: (await turnq.retry(found.turn)).kind === "opened" ? 1 : 0, agents: [agent] };
  }
  if (failed !== true && missed !== true && cancelled !== true) {
    throw new TurnqError("invalid_request", "say which turns are to be run again", {
      hint: `Type ${lines.of("retry", found.batch.id, "--failed")}; there are --missed and --cancelled too.`,
    });
  }
  const retried = await found.batch.retry({ failed, missed, cancelled });
  const waiting = new Set<string>();
  for await (const { agent, state } of turnq.turns.list({ batch: found.batch.id }))
    if (state !== "settled") waiting.add(agent);
  return { retried, agents: [...waiting] };
}
