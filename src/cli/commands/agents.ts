import type { Command } from "commander";
import type { KnownAgent } from "../../queue/directory.ts";
import { isServed, missingOn } from "../../queue/worker-registry.ts";
import type { CommandContext } from "../context.ts";
import { EXIT } from "../failure-text.ts";
import { openStore } from "../open-store.ts";
import { harmless } from "../harmless.ts";
import { OPTIONS } from "../option-parsers.ts";
import { plainTable } from "../plain-table.ts";
import { counted } from "../quantity-text.ts";

interface AgentsOptions {
  readonly config?: string | undefined;
  readonly json?: boolean | undefined;
  readonly quiet?: boolean | undefined;
}

/** Adds `turnq agents`. */
export function addAgents(program: Command, act: (options: AgentsOptions) => Promise<void>): void {
  program
    .command("agents")
    .description("Lists the agents of the configuration and those that workers have published, with what they can do.")
    .addOption(OPTIONS.config())
    .addOption(OPTIONS.json())
    .addOption(OPTIONS.quiet())
    .addHelpText(
      "after",
      `
Example:
  $ turnq agents

Next: turnq run FILE --agent NAME.`,
    )
    .action(act);
}

/** An agent as it is listed. */
interface AgentLine {
  readonly type: "agent";
  readonly name: string;
  readonly kind: string;
  readonly lane: string;
  readonly configured: boolean;
  readonly simulated: boolean;
  /** How many workers that are up run it. */
  readonly workers: number;
  /** Since when none does, epoch ms, where that is known. */
  readonly unservedSinceAt?: number | undefined;
  readonly abilities: KnownAgent["abilities"];
  readonly problem?: string | undefined;
}

/** Lists agents. */
export async function agents(context: CommandContext, options: AgentsOptions): Promise<number> {
  const { output, lines } = context;
  const store = await openStore(context, options);
  try {
    const { turnq } = store;
    await Promise.all([turnq.refreshAgents(), turnq.learnAgents()]);
    const workers = await turnq.workers.list();
    const own = new Set(store.agents.map(({ name }) => name));
    const found = turnq.knownAgents().map(({ name, kind, lane, abilities, lacking, problem = lacking }): AgentLine => {
      const unservedSinceAt = turnq.unservedSince(name);
      return {
        type: "agent",
        name,
        kind: store.simulated.has(name) ? "sim" : kind,
        lane,
        configured: own.has(name),
        simulated: store.simulated.has(name),
        workers: workers.filter((worker) => isServed([worker], name)).length,
        ...(unservedSinceAt === undefined ? {} : { unservedSinceAt }),
        abilities,
        ...(problem === undefined ? {} : { problem }),
      };
    });
    const missing = missingOn(workers);
    if (options.json === true) {
      for (const agent of found) await output.object(agent);
      for (const one of missing) await output.object({ type: "missing", ...one });
      return EXIT.ok;
    }
    await output.line(
      plainTable(
        HEAD,
        found.map(rowOf),
        output.colors,
        HEAD.map(() => "left"),
      ),
    );
    for (const { name, problem } of found)
      if (problem !== undefined) output.note(harmless(`${name} cannot run here: ${problem}`));
    for (const { worker, agent, problem } of missing)
      output.note(harmless(`${agent} is missing on worker ${worker}, which tries it again every 10 s: ${problem}`));
    if (options.quiet !== true)
      output.note(
        `${counted(workers.length, "worker")} here. Next: ${lines.of("run", "FILE", "--agent", found[0]?.name ?? "echo")}`,
      );
    return EXIT.ok;
  } finally {
    await store.close();
  }
}

const HEAD = ["agent", "kind", "lane", "from", "workers", "can"];

function rowOf(agent: AgentLine): string[] {
  const { cooperativeStop, announcesCalls, knowsCost, boundsMemory } = agent.abilities;
  const can = [
    ...(cooperativeStop ? ["stops when told"] : []),
    ...(announcesCalls ? ["announces calls"] : []),
    ...(knowsCost === true ? ["knows its cost"] : []),
    ...(boundsMemory === true ? ["bounds its memory"] : []),
  ];
  return [
    agent.name,
    agent.kind,
    agent.lane,
    agent.configured ? "this configuration" : "a worker",
    workersText(agent),
    agent.problem === undefined ? can.join(", ") : "cannot run",
  ];
}

function workersText({ workers, unservedSinceAt }: AgentLine): string {
  if (unservedSinceAt === undefined) return String(workers);
  return `none since ${new Date(unservedSinceAt).toISOString().slice(0, 16).replace("T", " ")}`;
}
