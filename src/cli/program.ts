import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Command } from "commander";
import { packageRoot } from "../redis/binary.ts";
import type { CommandContext } from "./context.ts";

/** What was chosen: the command, ready to run. */
export type Chosen = (context: CommandContext) => Promise<number>;

/** Where help and errors of usage go. */
export interface UsageText {
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
}

/** How a command hands over what was chosen: with an argument, or without. */
interface Words {
  readonly one: <O>(
    action: (context: CommandContext, argument: string, options: O) => Promise<number>,
  ) => (argument: string, options: O) => Promise<void>;
  readonly none: <O>(action: (context: CommandContext, options: O) => Promise<number>) => (options: O) => Promise<void>;
}

/** A command: what the list of all says of it, and how it is loaded, which takes most of the time of a short one. */
interface Entry {
  readonly summary: string;
  /** As in its usage. */
  readonly argument?: string | undefined;
  readonly add: (program: Command, words: Words) => Promise<void>;
}

/** The commands by name, in the order in which the help lists them. */
const COMMANDS: Readonly<Record<string, Entry>> = {
  run: {
    summary: "submit a file of turns, work on them and report",
    argument: "<file>",
    add: async (program, { one }) => {
      const { addRun, run } = await import("./commands/run.ts");
      addRun(program, one(run));
    },
  },
  submit: {
    summary: "check a file of turns and store them",
    argument: "<file>",
    add: async (program, { one }) => {
      const { addSubmit, submit } = await import("./commands/submit.ts");
      addSubmit(program, one(submit));
    },
  },
  work: {
    summary: "run turns until a signal",
    add: async (program, { none }) => {
      const { addWork, work } = await import("./commands/work.ts");
      addWork(program, none(work));
    },
  },
  watch: {
    summary: "follow a batch until all its turns are settled",
    argument: "<batch>",
    add: async (program, { one }) => {
      const { addWatch, watch } = await import("./commands/watch.ts");
      addWatch(program, one(watch));
    },
  },
  list: {
    summary: "list the batches",
    add: async (program, { none }) => {
      const { addList, list } = await import("./commands/list.ts");
      addList(program, none(list));
    },
  },
  results: {
    summary: "print the results of a batch",
    argument: "<batch>",
    add: async (program, { one }) => {
      const { addResults, results } = await import("./commands/results.ts");
      addResults(program, one(results));
    },
  },
  show: {
    summary: "show what a turn did, attempt by attempt",
    argument: "<turn>",
    add: async (program, { one }) => {
      const { addShow, show } = await import("./commands/show.ts");
      addShow(program, one(show));
    },
  },
  events: {
    summary: "print what a turn does, event by event",
    argument: "<turn>",
    add: async (program, { one }) => {
      const { addEvents, events } = await import("./commands/events.ts");
      addEvents(program, one(events));
    },
  },
  cancel: {
    summary: "end a turn, or every unsettled turn of a batch",
    argument: "<turn|batch>",
    add: async (program, { one }) => {
      const { addCancel, cancel } = await import("./commands/cancel.ts");
      addCancel(program, one(cancel));
    },
  },
  retry: {
    summary: "have turns that are settled run again",
    argument: "<turn|batch>",
    add: async (program, { one }) => {
      const { addRetry, retry } = await import("./commands/retry.ts");
      addRetry(program, one(retry));
    },
  },
  agents: {
    summary: "list the agents, and who runs them",
    add: async (program, { none }) => {
      const { addAgents, agents } = await import("./commands/agents.ts");
      addAgents(program, none(agents));
    },
  },
  redis: {
    summary: "keep the embedded Redis of this folder up",
    add: async (program, { none }) => {
      const { addRedis, redis } = await import("./commands/redis.ts");
      addRedis(program, none(redis));
    },
  },
  simulate: {
    summary: "a simulated model server for working offline",
    add: async (program, { none }) => {
      const { addSimulate, simulate } = await import("./commands/simulate.ts");
      addSimulate(program, none(simulate));
    },
  },
  doctor: {
    summary: "check what turnq stands on",
    add: async (program, { none }) => {
      const { addDoctor, doctor } = await import("./commands/doctor.ts");
      addDoctor(program, none(doctor));
    },
  },
};

/** Reads the arguments. Throws commander's CommanderError for help, the version, and for all that is wrong with them. */
export async function chosenCommand(argv: readonly string[], text: UsageText): Promise<Chosen | undefined> {
  let chosen: Chosen | undefined;
  const program = new Command("turnq")
    .description("A durable queue for agent turns.")
    .version(ownVersion())
    .exitOverride()
    .configureHelp({ subcommandTerm: (command) => `${command.name()} ${command.usage()}` })
    .configureOutput({ writeOut: text.out, writeErr: text.err })
    .showHelpAfterError("(--help shows how)")
    .addHelpText(
      "after",
      `
Example:
  $ echo '{"input": "hello"}' | turnq run - --agent echo

Redis: REDIS_URL, else an embedded one in .turnq of this folder. Next: turnq run --help.`,
    );
  const actions: Words = {
    one: (action) => async (argument, options) => {
      chosen = (context) => action(context, argument, options);
    },
    none: (action) => async (options) => {
      chosen = (context) => action(context, options);
    },
  };
  // `turnq help run` is `turnq run --help`.
  const words = argv[0] === "help" && argv[1] !== undefined ? [argv[1], "--help"] : argv;
  const name = words.find((word) => !word.startsWith("-"));
  for (const [own, { summary, argument, add }] of Object.entries(COMMANDS)) {
    if (own === name) await add(program, actions);
    // The others are there for the help that lists them, and to be suggested for a word that is none.
    else program.command(own).usage(argument === undefined ? "[options]" : `[options] ${argument}`);
    program.commands.at(-1)?.summary(summary);
  }
  await program.parseAsync([...words], { from: "user" });
  return chosen;
}

function ownVersion(): string {
  const content: unknown = JSON.parse(readFileSync(join(packageRoot(), "package.json"), "utf8"));
  return String(Reflect.get(Object(content), "version"));
}
