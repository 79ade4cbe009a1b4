import { isServed, missingOn, type WorkerInfo } from "../queue/worker-registry.ts";
import type { RedisCheck } from "../redis/doctor.ts";
import type { CommandContext } from "./context.ts";
import { openStore } from "./open-store.ts";

/**
 * Whether each agent of the configuration could run here: its module loads, its program is there, its key is set; and
 * what the workers that are up had to do without. Needs Redis.
 */
export async function checkAgents(context: CommandContext, config: string | undefined): Promise<RedisCheck[]> {
  const store = await openStore(context, { config });
  try {
    const entries = Object.entries(store.config.agents);
    await store.turnq.learnAgents(entries.map(([name]) => name));
    const known = new Map(store.turnq.knownAgents().map((agent) => [agent.name, agent]));
    const own = entries.map(([name, entry]): RedisCheck => {
      const agent = known.get(name);
      const problem = agent?.problem ?? agent?.lacking;
      return {
        name: `agent ${name}`,
        ok: problem === undefined,
        severity: "error",
        found: problem ?? `${entry.type}, can run`,
        wanted: "",
        hint: problem === undefined ? "" : "Correct its entry, or what it names.",
      };
    });
    return [...own, ...workerChecks(await store.turnq.workers.list())];
  } finally {
    await store.close();
  }
}

/** What a worker lacks is an error where nobody else has it either. */
function workerChecks(workers: readonly WorkerInfo[]): RedisCheck[] {
  return missingOn(workers).map(({ worker, agent, problem }) => ({
    name: `worker ${worker}`,
    ok: false,
    severity: isServed(workers, agent) ? "warning" : "error",
    found: `lacks agent ${agent}: ${problem}`,
    wanted: "",
    hint: "Correct that where it runs; it tries again every 10 s.",
  }));
}
