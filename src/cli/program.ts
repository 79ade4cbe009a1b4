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

/** The commands by name, in the order in which the help lists them. */
const COMMANDS: Readonly<Record<string, (program: Command, words: Words) => Promise<void>>> = {
  run: async (program, { one }) => {
    const { addRun, run } = await import("./commands/run.ts");
    addRun(program, one(run));
  },
  submit: async (program, { one }) => {
    const { addSubmit, submit } = await import("./commands/submit.ts");
    addSubmit(program, one(submit));
  },
  work: async (program, { none }) => {
    const { addWork, work } = await import("./commands/work.ts");
    addWork(program, none(work));
  },
  watch: async (program, { one }) => {
    const { addWatch, watch } = await import("./commands/watch.ts");
    addWatch(program, one(watch));
  },
  list: async (program, { none }) => {
    const { addList, list } = await import("./commands/list.ts");
    addList(program, none(list));
  },
  results: async (program, { one }) => {
    const { addResults, results } = await import("./commands/results.ts");
    addResults(program, one(results));
  },
  show: async (program, { one }) => {
    const { addShow, show } = await import("./commands/show.ts");
    addShow(program, one(show));
  },
  events: async (program, { one }) => {
    const { addEvents, events } = await import("./commands/events.ts");
    addEvents(program, one(events));
  },
  cancel: async (program, { one }) => {
    const { addCancel, cancel } = await import("./commands/cancel.ts");
    addCancel(program, one(cancel));
  },
  retry: async (program, { one }) => {
    const { addRetry, retry } = await import("./commands/retry.ts");
    addRetry(program, one(retry));
  },
  agents: async (program, { none }) => {
    const { addAgents, agents } = await import("./commands/agents.ts");
    addAgents(program, none(agents));
  },
  redis: async (program, { none }) => {
    const { addRedis, redis } = await import("./commands/redis.ts");
    addRedis(program, none(redis));
  },
  simulate: async (program, { none }) => {
    const { addSimulate, simulate } = await import("./commands/simulate.ts");
    addSimulate(program, none(simulate));
  },
  doctor: async (program, { none }) => {
    const { addDoctor, doctor } = await import("./commands/doctor.ts");
    addDoctor(program, none(doctor));
  },
};

/** Reads the arguments. Throws commander's CommanderError for help, the version, and for all that is wrong with them. */
export async function chosenCommand(argv: readonly string[], text: UsageText): Promise<Chosen | undefined> {
  let chosen: Chosen | undefined;
  const program = new Command("turnq")
    .description("A durable queue for agent turns.")
    .version(ownVersion())
    .exitOverride()
    .configureOutput({ writeOut: text.out, writeErr: text.err })
    .showHelpAfterError("(--help shows how)")
    .addHelpText(
      "after",
      `
Example:
  $ echo '{"input": "hello"}' | turnq run - --agent echo

Redis: REDIS_URL, else an embedded one in .turnq of this folder. Next: turnq run --help.`,
    );
  const words: Words = {
    one: (action) => async (argument, options) => {
      chosen = (context) => action(context, argument, options);
    },
    none: (action) => async (options) => {
      chosen = (context) => action(context, options);
    },
  };
  // Only the command that is asked for is loaded, since most of a short command's time is loading. All are needed for
  // the help that lists them, and to suggest one for a word that is none.
  const [name = ""] = argv;
  const only = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  const wanted = only === undefined ? Object.values(COMMANDS) : [only];
  for (const add of wanted) await add(program, words);
  await program.parseAsync([...argv], { from: "user" });
  return chosen;
}

function ownVersion(): string {
  const content: unknown = JSON.parse(readFileSync(join(packageRoot(), "package.json"), "utf8"));
  return String(Reflect.get(Object(content), "version"));
}
