import { InvalidArgumentError, Option, type Command } from "commander";
import type { TurnEvent } from "../../domain/turn-event.ts";
import type { CommandContext } from "../context.ts";
import { EXIT } from "../failure-text.ts";
import { openStore } from "../open-store.ts";
import { OPTIONS } from "../option-parsers.ts";
import { harmless } from "../harmless.ts";
import { cutText } from "../../domain/text.ts";

interface EventsCommandOptions {
  readonly follow?: boolean | undefined;
  readonly after: number;
  readonly lane?: string | undefined;
  readonly config?: string | undefined;
  readonly json?: boolean | undefined;
}

const TEXT_CHARS = 200;

function seq(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new InvalidArgumentError("It must be the seq of an event, 0 or more.");
  return Number(text);
}

/** Adds `turnq events`. */
export function addEvents(program: Command, act: (turn: string, options: EventsCommandOptions) => Promise<void>): void {
  program
    .command("events")
    .description("Prints the events of all attempts of TURN, a line each; with --follow until it is settled.")
    .argument("<turn>", "the turn's id")
    .option("--follow", "go on until the turn is settled")
    .addOption(new Option("--after <seq>", "only events after this one").argParser(seq).default(0))
    .addOption(OPTIONS.lane("the lane to look in"))
    .addOption(OPTIONS.config())
    .addOption(OPTIONS.json())
    .addHelpText(
      "after",
      `
Example:
  $ turnq events monday:words-1:echo:1 --follow

Next: turnq show TURN for the whole story.`,
    )
    .action(act);
}

/** Prints events. */
export async function events(context: CommandContext, id: string, options: EventsCommandOptions): Promise<number> {
  const { output } = context;
  const store = await openStore(context, options);
  try {
    const turn = await store.turnq.turn(id, { lane: options.lane });
    const interruption = context.interruptible();
    const signal = AbortSignal.any([interruption.signal, output.gone]);
    for await (const event of turn.events({ after: options.after, signal, follow: options.follow === true })) {
      if (options.json === true) await output.object(event);
      else await output.line(eventText(event));
    }
    return interruption.signal.aborted ? EXIT.cancelled : EXIT.ok;
  } finally {
    await store.close();
  }
}

/** An event as a line. */
export function eventText(event: TurnEvent): string {
  const { seq: number, attempt, at, type, turn: _turn, ...facts } = event;
  const time = new Date(at).toISOString().slice(11, 23);
  return harmless(`${number}  ${time}  attempt ${attempt}  ${type}  ${factsText(facts)}`).trimEnd();
}

function factsText(facts: object): string {
  return Object.entries(facts)
    .filter(([, value]) => value !== undefined)
    .map(
      ([name, value]) =>
        `${name}=${cutText(typeof value === "string" ? JSON.stringify(value) : (JSON.stringify(value) ?? ""), TEXT_CHARS)}`,
    )
    .join(" ");
}
