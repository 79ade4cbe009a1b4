import type { Command } from "commander";
import { isTurnqError, messageOf } from "../../domain/error.ts";
import { outcomeOf } from "../../domain/turn-result.ts";
import type { TurnHandle } from "../../queue/turn-handle.ts";
import type { CommandContext } from "../context.ts";
import { EXIT } from "../failure-text.ts";
import { openStore } from "../open-store.ts";
import { OPTIONS } from "../option-parsers.ts";
import { lateUsageOf, turnText, type TurnStory } from "../turn-view.ts";

interface ShowOptions {
  readonly generation?: number | undefined;
  readonly lane?: string | undefined;
  readonly config?: string | undefined;
  readonly json?: boolean | undefined;
  readonly quiet?: boolean | undefined;
}

/** Adds `turnq show`. */
export function addShow(program: Command, act: (turn: string, options: ShowOptions) => Promise<void>): void {
  program
    .command("show")
    .description("Shows the attempts of TURN with what each did and cost, the transcript and the Result.")
    .argument("<turn>", "the turn's id")
    .addOption(OPTIONS.generation())
    .addOption(OPTIONS.lane("the lane to look in"))
    .addOption(OPTIONS.config())
    .addOption(OPTIONS.json())
    .addOption(OPTIONS.quiet())
    .addHelpText(
      "after",
      `
Example:
  $ turnq show monday:words-1:echo:1

A turn that was retried keeps its earlier Results: --generation 1 shows the first.
Next: turnq retry BATCH --failed runs the failures of its batch again.`,
    )
    .action(act);
}

/** Shows one turn. */
export async function show(context: CommandContext, id: string, options: ShowOptions): Promise<number> {
  const { output, lines } = context;
  const store = await openStore(context, options);
  try {
    const story = await storyOf(await store.turnq.turn(id, { lane: options.lane }), options.generation);
    if (options.json === true) {
      const { row, ...more } = story;
      await output.object({ type: "turn", ...row, ...more });
      return EXIT.ok;
    }
    await output.line(turnText(story, output.colors));
    const { batch } = story.row;
    if (options.quiet === true || batch === undefined) return EXIT.ok;
    const failed = story.row.outcome === "failed" || story.row.outcome === "expired";
    output.note(`next: ${failed ? lines.of("retry", batch, "--failed") : lines.of("results", batch)}`);
    return EXIT.ok;
  } finally {
    await store.close();
  }
}

/** The newest generation's story, or another one's. Throws `not_found`. */
async function storyOf(turn: TurnHandle, wanted: number | undefined): Promise<TurnStory> {
  const row = await turn.row();
  const generation = wanted ?? row.generation;
  const [request, all, running] = await Promise.all([turn.request(), turn.attempts(), turn.running()]);
  const newest = generation === row.generation;
  const result = newest && row.state !== "settled" ? undefined : await turn.result({ generation, waitMs: 0 });
  const earlier: TurnStory["earlier"][number][] = [];
  for (let before = 1; before < generation; before += 1) earlier.push(await earlierOf(turn, before));
  const numbers = new Set(result?.attempts.map(({ attempt }) => attempt));
  const attempts: TurnStory["attempts"][number][] = [];
  // One after the other: a record can be large.
  for (const attempt of newest ? all : all.filter((one) => numbers.has(one.attempt)))
    attempts.push({ ...attempt, record: await turn.record(attempt.attempt) });
  const lateUsage = result === undefined ? undefined : lateUsageOf(result, all);
  return {
    row,
    request,
    shown: generation,
    attempts,
    running: newest ? running : undefined,
    result,
    ...(lateUsage === undefined ? {} : { lateUsage }),
    earlier,
  };
}

/** What a generation ended in. One whose Result cannot be read is no reason not to show the others. */
async function earlierOf(turn: TurnHandle, generation: number): Promise<TurnStory["earlier"][number]> {
  try {
    const { status, error } = await turn.result({ generation, waitMs: 0 });
    return { generation, outcome: outcomeOf(status), status, ...(error === undefined ? {} : { error }) };
  } catch (error) {
    if (isTurnqError(error, "corrupt") || isTurnqError(error, "not_found"))
      return { generation, error: messageOf(error) };
    throw error;
  }
}
