import { Option, type Command } from "commander";
import type { Batch } from "../../batch-handle.ts";
import type { CancelProgress } from "../../queue/cancel.ts";
import type { TurnHandle } from "../../queue/turn-handle.ts";
import type { CommandContext } from "../context.ts";
import { EXIT } from "../failure-text.ts";
import { findWork } from "../find-work.ts";
import { openStore } from "../open-store.ts";
import { OPTIONS } from "../option-parsers.ts";
import { counted } from "../quantity-text.ts";

interface CancelCommandOptions {
  readonly reason?: string | undefined;
  readonly yes?: boolean | undefined;
  readonly lane?: string | undefined;
  readonly config?: string | undefined;
  readonly json?: boolean | undefined;
  readonly quiet?: boolean | undefined;
}

/** More turns than this are not ended by a slip of the pen: a terminal is asked. */
const ASKED_OVER = 100;

/** Adds `turnq cancel`. */
export function addCancel(program: Command, act: (id: string, options: CancelCommandOptions) => Promise<void>): void {
  program
    .command("cancel")
    .description(
      "Cancels TURN, or each turn of BATCH that is not settled. What waits ends at once, also without a worker; what runs is told to stop and killed after its grace.",
    )
    .argument("<turn|batch>", "the id")
    .addOption(new Option("--reason <text>", "what the Results say"))
    .addOption(OPTIONS.yes())
    .addOption(OPTIONS.lane("the lane of the turn"))
    .addOption(OPTIONS.config())
    .addOption(OPTIONS.json())
    .addOption(OPTIONS.quiet())
    .addHelpText(
      "after",
      `
Example:
  $ turnq cancel monday --reason "wrong prompt"

Next: turnq watch BATCH until what runs has stopped, turnq retry BATCH --cancelled to run them after all.`,
    )
    .action(act);
}

/** Cancels. */
export async function cancel(context: CommandContext, id: string, options: CancelCommandOptions): Promise<number> {
  const store = await openStore(context, options);
  try {
    const found = await findWork(store.turnq, id, options);
    return found.kind === "turn"
      ? await cancelOne(context, found.turn, options)
      : await cancelBatch(context, found.batch, options);
  } finally {
    await store.close();
  }
}

const DONE = {
  settled: "cancelled",
  requested: "told to stop; it is killed when its grace is over",
  already: "settled before, and stays as it is",
} as const;

async function cancelOne(
  { output, lines }: CommandContext,
  turn: TurnHandle,
  options: CancelCommandOptions,
): Promise<number> {
  const { kind } = await turn.cancel({ reason: options.reason, by: "turnq cancel" });
  if (options.json === true) await output.object({ type: "cancelled", turn: turn.id, kind });
  else await output.line(`turn ${turn.id}: ${DONE[kind]}`);
  if (options.quiet !== true) output.note(`next: ${lines.of("show", turn.id)}`);
  return EXIT.ok;
}

async function cancelBatch(
  { output, lines, ask }: CommandContext,
  batch: Batch,
  options: CancelCommandOptions,
): Promise<number> {
  const { turns, states } = await batch.progress();
  const open = turns - states.settled;
  if (options.quiet !== true) output.note(`batch ${batch.id}: ${open} of ${counted(turns, "turn")} are not settled`);
  if (open > ASKED_OVER && options.yes !== true && ask !== undefined) {
    if (!(await ask(`Cancel ${open} turns of batch ${batch.id}?`))) {
      output.note("nothing was cancelled");
      return EXIT.cancelled;
    }
  }
  let done: CancelProgress = { turns: 0, settled: 0, requested: 0, already: 0 };
  for await (done of batch.cancel({ reason: options.reason, by: "turnq cancel" }))
    output.live(`looked at ${done.turns} of ${counted(turns, "turn")}`);
  output.live("");
  if (options.json === true) await output.object({ type: "cancelled", batch: batch.id, ...done });
  else
    await output.line(
      `batch ${batch.id}: ${done.settled} cancelled, ${done.requested} running and told to stop, ${done.already} settled before`,
    );
  if (options.quiet === true) return EXIT.ok;
  output.note(`next: ${done.requested > 0 ? lines.of("watch", batch.id) : lines.of("results", batch.id)}`);
  return EXIT.ok;
}
