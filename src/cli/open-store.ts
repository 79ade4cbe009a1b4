import { existsSync } from "node:fs";
import { join } from "node:path";
import type { NamedEntry } from "../app.ts";
import { loadConfig, type Config, type ConfigAgent, type SimEntry } from "../config.ts";
import { TurnqError } from "../domain/error.ts";
import { openLog } from "../telemetry/pino-log.ts";
import type { Log } from "../telemetry/log.ts";
import type { EmbeddedRedis } from "../redis/embedded.ts";
import { findRedisServer } from "../redis/binary.ts";
import { redactUrl } from "../redis/url.ts";
import type { Turnq } from "../turnq.ts";
import type { CommandContext } from "./context.ts";
import { BUILT_IN_SIM, playableEntry } from "./simulation.ts";

/** How long Redis may take to answer at the start, in ms. */
export const CONNECT_WITHIN_MS = 5000;
/** How long closing may take before the process ends all the same, in ms. */
const CLOSE_WITHIN_MS = 2000;

/** Where the folder's Redis is, and how to let it go. */
export interface RedisPlace {
  readonly url: string;
  /** For people: no password in it. */
  readonly shown: string;
  /** False when it cannot come back, since the folder of the embedded one was deleted. */
  mayReturn(): boolean;
  close(): void;
}

/** A store with the agents of a configuration, open for one command. */
export interface OpenStore {
  readonly turnq: Turnq;
  readonly config: Config;
  /** The agents of the configuration and the built-in ones; a simulated one plays on nothing yet. */
  readonly agents: readonly NamedEntry[];
  /** The simulated ones among them, which need a simulator to run. */
  readonly simulated: ReadonlyMap<string, SimEntry>;
  readonly redis: RedisPlace;
  /** Ends within 2 s, whatever Redis does. */
  close(): Promise<void>;
}

/** Opens the Redis of `REDIS_URL`, else the embedded one. Throws `config`, `redis_missing`, `redis_unreachable`, `redis_refused`. */
export async function openStore(
  context: CommandContext,
  options: { readonly config?: string | undefined },
): Promise<OpenStore> {
  const { cwd, env } = context;
  const config = await loadConfig({ file: options.config, cwd, env, turnq: () => import("../index.ts") });
  const entries = entriesOf(config);
  const agents = Object.entries(entries).map(([name, entry]) => playableEntry(name, entry));
  const simulated = new Map(
    Object.entries(entries).flatMap(([name, entry]) => (entry.type === "sim" ? [[name, entry] as const] : [])),
  );
  const redis = await placeRedis(context);
  try {
    // Loaded only here: BullMQ is half of the start-up time, and `--help` needs none of it.
    const { openTurnq } = await import("../app.ts");
    const log = commandLog(context);
    const turnq = await openTurnq({
      redis: redis.url,
      agents,
      baseDir: config.baseDir,
      env,
      connectWithinMs: CONNECT_WITHIN_MS,
      log,
    });
    return { turnq, config, agents, simulated, redis, close: () => closeStore(turnq, redis) };
  } catch (error) {
    redis.close();
    throw error;
  }
}

async function closeStore(turnq: Turnq, redis: RedisPlace): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<void>((resolve) => (timer = setTimeout(resolve, CLOSE_WITHIN_MS)));
  await Promise.race([turnq.close(), limit]);
  clearTimeout(timer);
  redis.close();
}

/** The agents of a configuration, and `sim`, `echo` and `noop` unless it has agents of these names. */
export function entriesOf(config: Config): Readonly<Record<string, ConfigAgent>> {
  return { echo: { type: "echo" }, noop: { type: "noop" }, sim: BUILT_IN_SIM, ...config.agents };
}

/** The Redis to use. Throws `redis_missing` or `redis_unreachable`. */
export async function placeRedis(context: CommandContext): Promise<RedisPlace> {
  const { redisUrl } = context.settings;
  if (redisUrl !== undefined)
    return { url: redisUrl, shown: redactUrl(redisUrl), mayReturn: () => true, close: () => undefined };
  const embedded = await startEmbedded(context);
  return {
    url: embedded.url,
    shown: `the embedded Redis of ${context.cwd}`,
    mayReturn: () => existsSync(embeddedFolder(context)),
    close: () => embedded.close(),
  };
}

function embeddedFolder({ cwd }: CommandContext): string {
  return join(cwd, ".turnq", "redis");
}

/** Starts or adopts the embedded Redis of the working folder. Throws `redis_missing` or `redis_unreachable`. */
export async function startEmbedded(context: CommandContext): Promise<EmbeddedRedis> {
  const { settings, cwd, lines } = context;
  const binary = findRedisServer({ pathEnv: settings.path, explicit: settings.redisServer, dirs: [cwd] });
  if (binary === undefined) {
    throw new TurnqError("redis_missing", "no redis-server or valkey-server was found on this machine", {
      hint: `Type ${lines.of("doctor", "--fix")} to fetch one, or set REDIS_URL.`,
    });
  }
  const { ensureEmbeddedRedis } = await import("../redis/embedded.ts");
  return ensureEmbeddedRedis({ dir: embeddedFolder(context), binary, pathEnv: settings.path });
}

/** Logs of this process, for stderr. */
export function commandLog(context: CommandContext): Log {
  const { output, settings } = context;
  const pretty = output.isTerminal;
  return openLog({
    level: settings.logLevel,
    pretty,
    colors: pretty && output.colors.isColorSupported,
    write: (line) => (pretty ? output.note(line.trimEnd()) : output.log(line.trimEnd())),
  });
}
