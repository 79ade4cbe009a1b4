import type { Command } from "commander";
import { setTimeout as sleep } from "node:timers/promises";
import type { BatchProgress } from "../../batch-handle.ts";
import type { CommandContext } from "../context.ts";
import { EXIT } from "../failure-text.ts";
import { openStore } from "../open-store.ts";
import { OPTIONS } from "../option-parsers.ts";
import { progressStyle, showProgress } from "../progress-view.ts";
import { failureLines } from "../summary-view.ts";

interface WatchOptions {
  readonly config?: string | undefined;
  readonly json?: boolean | undefined;
  readonly quiet?: boolean | undefined;
}

/** How often it is looked whether the batch has ended, in ms. */
const LOOK_EVERY_MS = 300;

/** Adds `turnq watch`. */
export function addWatch(program: Command, act: (batch: string, options: WatchOptions) => Promise<void>): void {
  program
    .command("watch")
    .description(
      "Shows how far BATCH is, from any terminal, until all its turns are settled. Ctrl-C ends the watching only.",
    )
    .argument("<batch>", "the batch's id")
    .addOption(OPTIONS.config())
    .addOption(OPTIONS.json())
    .addOption(OPTIONS.quiet())
    .addHelpText(
      "after",
      `
Example:
  $ turnq watch monday

Next: turnq results BATCH, turnq cancel BATCH to end it.`,
    )
    .action(act);
}

/** Shows progress until the batch is settled. */
export async function watch(context: CommandContext, id: string, options: WatchOptions): Promise<number> {
  const { output, lines, now } = context;
  const store = await openStore(context, options);
  try {
    const batch = store.turnq.batch(id);
    let progress = await batch.progress();
    const interruption = context.interruptible();
    const ended = new AbortController();
    const signal = AbortSignal.any([ended.signal, interruption.signal, output.gone]);
    const shown = showProgress({
      output,
      style: progressStyle(output, options),
      progress: () => batch.progress(),
      now,
      signal,
    });
    while (progress.states.settled < progress.turns && !signal.aborted) {
      await sleep(LOOK_EVERY_MS, undefined, { signal }).catch(() => undefined);
      // Redis may be away for a while: what is watched goes on meanwhile.
      progress = await batch.progress().catch((error: unknown) => {
        if (store.redis.mayReturn()) return progress;
        throw error;
      });
    }
    ended.abort();
    await shown;
    if (output.gone.aborted) return EXIT.ok;
    const { failed, expired } = progress.outcomes;
    // Whoever ends the watching does not wait for more.
    const failures = failed + expired > 0 && !interruption.signal.aborted ? await batch.failures() : {};
    if (options.json === true) await output.object({ ...endOf(progress), failures });
    else
      for (const line of [endText(progress), ...failureLines(failures).map((why) => `  ${why}`)])
        await output.line(line);
    if (options.quiet !== true) output.note(`next: ${lines.of("results", id)}`);
    return interruption.signal.aborted ? EXIT.cancelled : EXIT.ok;
  } finally {
    await store.close();
  }
}

function endOf(progress: BatchProgress): object {
  const { batch, turns, states, outcomes, attempts, crashedAttempts, scored, passed, usage } = progress;
  return {
    type: "batch",
    batch,
    turns,
    settled: states.settled,
    ...outcomes,
    attempts,
    crashedAttempts,
    scored,
    passed,
    usage,
  };
}

function endText({ batch, turns, states, outcomes, scored, passed }: BatchProgress): string {
  const { ok, failed, cancelled, expired } = outcomes;
  const measured = scored === 0 ? "" : `; ${passed} of ${scored} passed`;
  return `batch ${batch}: ${states.settled} of ${turns} settled: ${ok} ok, ${failed} failed, ${cancelled} cancelled, ${expired} expired${measured}`;
}
