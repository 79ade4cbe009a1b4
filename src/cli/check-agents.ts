import { resolve } from "node:path";
import type { Config, ConfigAgent } from "../config.ts";
import { messageOf } from "../domain/error.ts";
import { allowedEnv } from "../process/allowed-env.ts";
import { programPath } from "../process/program-path.ts";
import type { RedisCheck } from "../redis/doctor.ts";
import type { CommandContext } from "./context.ts";
import { openStore } from "./open-store.ts";

/** Whether each agent of the configuration could run here: its module loads, its program is there, its key is set. Needs Redis. */
export async function checkAgents(context: CommandContext, config: string | undefined): Promise<RedisCheck[]> {
  const store = await openStore(context, { config });
  try {
    const entries = Object.entries(store.config.agents);
    await store.turnq.learnAgents(entries.map(([name]) => name));
    const known = new Map(store.turnq.knownAgents().map((agent) => [agent.name, agent]));
    return entries.map(([name, entry]) => {
      const agent = known.get(name);
      const problem = agent?.problem ?? agent?.lacking ?? programProblem(entry, store.config, context.env);
      return {
        name: `agent ${name}`,
        ok: problem === undefined,
        severity: "error",
        found: problem ?? `${entry.type}, can run`,
        wanted: "",
        hint: problem === undefined ? "" : "Correct its entry, or what it names.",
      };
    });
  } finally {
    await store.close();
  }
}

function programProblem(
  entry: ConfigAgent,
  { baseDir }: Config,
  env: Readonly<Record<string, string | undefined>>,
): string | undefined {
  if (entry.type !== "command") return undefined;
  const [program = ""] = entry.command;
  try {
    const path = program.includes("/") ? resolve(baseDir, program) : program;
    programPath(path, resolve(baseDir, entry.cwd ?? "."), allowedEnv(env, entry.env));
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}
