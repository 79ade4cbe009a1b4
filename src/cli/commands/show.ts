import type { Command } from "commander";
import type { TurnHandle } from "../../queue/turn-handle.ts";
import type { CommandContext } from "../context.ts";
import { EXIT } from "../failure-text.ts";
import { openStore } from "../open-store.ts";
import { OPTIONS } from "../option-parsers.ts";
import { turnText, type TurnStory } from "../turn-view.ts";

interface ShowOptions {
  readonly lane?: string | undefined;
  readonly config?: string | undefined;
  readonly json?: boolean | undefined;
  readonly quiet?: boolean | undefined;
}

/** Adds `turnq show`. */
export function addShow(program: Command, act: (turn: string, options: ShowOptions) => Promise<void>): void {
  program
    .command("show")
    .summary("show what a turn did, attempt by attempt")
    .description("Shows the attempts of TURN with what each did and cost, the transcript and the Result.")
    .argument("<turn>", "the turn's id")
    .addOption(OPTIONS.lane("the lane to look in"))
    .addOption(OPTIONS.config())
    .addOption(OPTIONS.json())
    .addOption(OPTIONS.quiet())
    .addHelpText(
      "after",
      `
Example:
  $ turnq show monday:words-1:echo:1

Next: turnq retry BATCH --failed runs the failures of its batch again.`,
    )
    .action(act);
}

/** Shows one turn. */
export async function show(context: CommandContext, id: string, options: ShowOptions): Promise<number> {
  const { output, lines } = context;
  const store = await openStore(context, options);
  try {
    const story = await storyOf(await store.turnq.turn(id, { lane: options.lane }));
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

async function storyOf(turn: TurnHandle): Promise<TurnStory> {
  const [row, request, attempts, running] = await Promise.all([
    turn.row(),
    turn.request(),
    turn.attempts(),
    turn.running(),
  ]);
  const told: TurnStory["attempts"][number][] = [];
  // One after the other: a record can be large.
  for (const attempt of attempts) told.push({ ...attempt, record: await turn.record(attempt.attempt) });
  const result = row.state === "settled" ? await turn.result({ waitMs: 0 }) : undefined;
  return { row, request, attempts: told, running, result };
}
