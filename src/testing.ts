import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openTurnq, type OpenOptions } from "./app.ts";
import { processEnvironment, settingsOf } from "./config.ts";
import { TurnqError } from "./domain/error.ts";
import { findRedisServer } from "./redis/binary.ts";
import { startRedisServer } from "./redis/server.ts";
import type { Turnq } from "./turnq.ts";

export {
  CONTRACT_SCENARIOS,
  agentContract,
  type CannotPlay,
  type ContractFactory,
  type ContractPlay,
  type ContractScenario,
  type TestApi,
} from "./agent/agent-contract.ts";
export type { Script, ScriptedConfig } from "./agents/scripted/script.ts";
export { ScriptedAgent, scriptedAgent } from "./agents/scripted/scripted-agent.ts";

/** A turnq on a Redis of its own. */
export interface TestTurnq {
  readonly turnq: Turnq;
  readonly redisUrl: string;
  /** Closes turnq, ends the Redis and removes its folder. */
  close(): Promise<void>;
}

/**
 * Opens turnq on a throw-away Redis, for tests. The redis-server is looked for on the PATH and
 * where the set-up puts one; `redis_missing` when there is none.
 */
export async function openTestTurnq(options: Omit<OpenOptions, "redis"> = {}): Promise<TestTurnq> {
  const settings = settingsOf(processEnvironment());
  const binary = findRedisServer({ pathEnv: settings.path, explicit: settings.redisServer, dirs: [process.cwd()] });
  if (binary === undefined)
    throw new TurnqError("redis_missing", "no redis-server was found", { hint: "Run `npx turnq doctor --fix`." });
  const dir = await mkdtemp(join(tmpdir(), "turnq-"));
  const server = await startRedisServer({ binary, dir });
  const end = async (): Promise<void> => {
    await server.stop();
    await rm(dir, { recursive: true, force: true });
  };
  try {
    const turnq = await openTurnq({ ...options, redis: server.url });
    return {
      turnq,
      redisUrl: server.url,
      close: async () => {
        await turnq.close();
        await end();
      },
    };
  } catch (error) {
    await end();
    throw error;
  }
}
