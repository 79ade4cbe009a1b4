import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Command } from "commander";
import { packageRoot } from "../redis/binary.ts";
import { addAgents, agents } from "./commands/agents.ts";
import { addCancel, cancel } from "./commands/cancel.ts";
import { addDoctor, doctor } from "./commands/doctor.ts";
import { addEvents, events } from "./commands/events.ts";
import { addList, list } from "./commands/list.ts";
import { addRedis, redis } from "./commands/redis.ts";
import { addResults, results } from "./commands/results.ts";
import { addRetry, retry } from "./commands/retry.ts";
import { addRun, run } from "./commands/run.ts";
import { addShow, show } from "./commands/show.ts";
import { addSimulate, simulate } from "./commands/simulate.ts";
import { addSubmit, submit } from "./commands/submit.ts";
import { addWatch, watch } from "./commands/watch.ts";
import { addWork, work } from "./commands/work.ts";
import type { CommandContext } from "./context.ts";

/** What was chosen: the command, ready to run. */
export type Chosen = (context: CommandContext) => Promise<number>;

/** Where help and errors of usage go. */
export interface UsageText {
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
}

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
  const one =
    <O>(action: (context: CommandContext, argument: string, options: O) => Promise<number>) =>
    async (argument: string, options: O): Promise<void> => {
      chosen = (context) => action(context, argument, options);
    };
  const none =
    <O>(action: (context: CommandContext, options: O) => Promise<number>) =>
    async (options: O): Promise<void> => {
      chosen = (context) => action(context, options);
    };
  addRun(program, one(run));
  addSubmit(program, one(submit));
  addWork(program, none(work));
  addWatch(program, one(watch));
  addList(program, none(list));
  addResults(program, one(results));
  addShow(program, one(show));
  addEvents(program, one(events));
  addCancel(program, one(cancel));
  addRetry(program, one(retry));
  addAgents(program, none(agents));
  addRedis(program, none(redis));
  addSimulate(program, none(simulate));
  addDoctor(program, none(doctor));
  await program.parseAsync([...argv], { from: "user" });
  return chosen;
}

function ownVersion(): string {
  const content: unknown = JSON.parse(readFileSync(join(packageRoot(), "package.json"), "utf8"));
  return String(Reflect.get(Object(content), "version"));
}
