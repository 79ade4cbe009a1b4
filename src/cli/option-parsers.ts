import { InvalidArgumentError, Option, type Command } from "commander";
import { parseMapping, type Mapping } from "../batch/mapping.ts";
import { CheckType } from "../domain/check.ts";
import { messageOf } from "../domain/error.ts";
import { settingsOfText } from "../simulator/settings-text.ts";
import type { ModelSettingsInput } from "../simulator/model-settings.ts";
import { Id, Name } from "../domain/id.ts";

/** A whole number of at least 1. */
export function wholeNumber(text: string): number {
  const number = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(number) || number < 1) {
    throw new InvalidArgumentError("It must be a whole number of at least 1.");
  }
  return number;
}

const EPOCHS_MAX = 10_000;

function epochs(text: string): number {
  const number = wholeNumber(text);
  if (number > EPOCHS_MAX) throw new InvalidArgumentError(`It must be at most ${EPOCHS_MAX}.`);
  return number;
}

/** A share from 0 to 1. */
export function share(text: string): number {
  const number = Number(text);
  if (text.trim() === "" || !(number >= 0 && number <= 1))
    throw new InvalidArgumentError("It must be a number from 0 to 1.");
  return number;
}

function mapping(text: string): Mapping {
  try {
    return parseMapping(text);
  } catch (error) {
    throw new InvalidArgumentError(messageOf(error));
  }
}

function id(text: string): string {
  const parsed = Id.safeParse(text);
  if (!parsed.success)
    throw new InvalidArgumentError("It must be 1 to 200 characters of letters, digits and . _ - / : @");
  return parsed.data;
}

function name(text: string): string {
  const parsed = Name.safeParse(text);
  if (!parsed.success)
    throw new InvalidArgumentError("It must be 1 to 100 characters of letters, digits and . _ - / @");
  return parsed.data;
}

function fileName(text: string): string {
  if (text === "") throw new InvalidArgumentError("It must be a path.");
  return text;
}

function portNumber(text: string): number {
  const number = Number(text);
  if (!/^\d+$/.test(text) || number > 65_535) throw new InvalidArgumentError("It must be a port from 0 to 65535.");
  return number;
}

function seedNumber(text: string): number {
  const number = Number(text);
  if (!/^-?\d+$/.test(text) || !Number.isSafeInteger(number))
    throw new InvalidArgumentError("It must be a whole number.");
  return number;
}

function simulatedSettings(text: string): ModelSettingsInput {
  try {
    return settingsOfText(text);
  } catch (error) {
    throw new InvalidArgumentError(messageOf(error));
  }
}

/** Adds to a list: for options that may be given more than once. */
function repeated(text: string, before: readonly string[] | undefined): readonly string[] {
  return [...(before ?? []), name(text)];
}

/** Every option of the command line, each with one name, one meaning and one parser for all commands. */
export const OPTIONS = {
  agent: () => new Option("--agent <name>", "an agent; give it again for more").argParser(repeated),
  epochs: () => new Option("--epochs <k>", "how often each sample is run").argParser(epochs).default(1),
  concurrency: () =>
    new Option("--concurrency <n>", "turns at once in this process").argParser(wholeNumber).default(10),
  generation: () =>
    new Option("--generation <n>", "which generation of a turn that was retried (the newest unless given)").argParser(
      wholeNumber,
    ),
  batch: () => new Option("--batch <id>", "the batch to start or to go on with (a new one unless given)").argParser(id),
  map: () => new Option("--map <field=column,…>", "which columns of a line are input, target, id …").argParser(mapping),
  inputFormat: () =>
    new Option("--input-format <format>", "the form of the input (by the name of the file, else jsonl)").choices([
      "jsonl",
      "csv",
    ]),
  expect: () => new Option("--expect <type>", "how outputs are checked against the targets").choices(CheckType.options),
  limit: () => new Option("--limit <n>", "only the first n samples").argParser(wholeNumber),
  sample: () => new Option("--sample <id>", "only this sample").argParser(id),
  timeout: () => new Option("--timeout <ms>", "deadline of an attempt, where the line has none").argParser(wholeNumber),
  threshold: () =>
    new Option("--threshold <p>", "exit 1 when less than this share of the scored turns passed").argParser(share),
  failOnError: () => new Option("--fail-on-error", "exit 1 when a turn failed"),
  only: () => new Option("--only", "do not begin while turns of others wait in the lanes"),
  out: () => new Option("--out <file>", "where the result lines go").argParser(fileName),
  messages: () => new Option("--messages", "transcripts in the result lines"),
  config: () =>
    new Option("--config <file>", "the configuration (turnq.config.* of this folder or above unless given)").argParser(
      fileName,
    ),
  lane: (meaning: string) => new Option("--lane <name>", meaning).argParser(name),
  /** Of a simulated model. */
  simulated: {
    accuracy: () => new Option("--accuracy <p>", "share of right answers (0.8 unless given)").argParser(share),
    port: () => new Option("--port <n>", "where to listen; 0 is a free port").argParser(portNumber).default(0),
    seed: () => new Option("--seed <n>", "what answers and faults are drawn from").argParser(seedNumber),
    model: () => new Option("--model <name>", "a model's name; give it again for more").argParser(repeated),
  },
  sim: () =>
    new Option(
      "--sim <setting=value,…>",
      "how simulated agents behave: accuracy=0.9,seed=3,latency=5..20,rate=20/s and faults 429=0.05,cut=0.02",
    ).argParser(simulatedSettings),
  json: () => new Option("--json", "one JSON object per line on stdout, and nothing else"),
  yes: () => new Option("--yes", "do it without asking"),
  quiet: () => new Option("--quiet", "no progress and no hints"),
} as const;

/** A command that takes a file of turns: its argument, and how the file becomes turns of a batch. */
export function withTurnOptions(command: Command): Command {
  return command
    .argument("<file>", "the turns, one JSON object or CSV row a line; - for stdin")
    .addOption(OPTIONS.agent())
    .addOption(OPTIONS.epochs())
    .addOption(OPTIONS.batch())
    .addOption(OPTIONS.map())
    .addOption(OPTIONS.inputFormat())
    .addOption(OPTIONS.expect())
    .addOption(OPTIONS.limit())
    .addOption(OPTIONS.sample())
    .addOption(OPTIONS.timeout())
    .addOption(OPTIONS.config())
    .addOption(OPTIONS.lane("the lane of turns that name none (the agent's own unless given)"))
    .addOption(OPTIONS.json())
    .addOption(OPTIONS.quiet());
}
