import { readFile } from "node:fs/promises";
import { dirname, extname, resolve } from "node:path";
import { createJiti } from "jiti";
import { lilconfig } from "lilconfig";
import { z } from "zod";
import { ChatConfig, Price } from "./agents/chat/chat-config.ts";
import { CommandConfig } from "./agents/command/command-config.ts";
import { ModuleConfig } from "./agents/module/module-config.ts";
import { ScriptedConfig } from "./agents/scripted/script.ts";
import { fieldProblem, problemsOf } from "./parse/problem.ts";
import { TurnqError, messageOf } from "./domain/error.ts";
import { deepFreeze } from "./domain/freeze.ts";
import { Name } from "./domain/id.ts";
import { LimitsInput, RetryInput } from "./domain/limits.ts";
import { ModelSettingsInput } from "./simulator/model-settings.ts";

const placed = { lane: Name.optional(), limits: LimitsInput.optional(), retry: RetryInput.optional() };

/** An agent as a configuration describes it; `type` says which. */
export const AgentEntry = z.discriminatedUnion("type", [
  ChatConfig,
  CommandConfig,
  ModuleConfig,
  z.strictObject({ type: z.literal("echo"), ...placed }),
  z.strictObject({ type: z.literal("noop"), ...placed }),
  z.strictObject({ type: z.literal("scripted"), ...ScriptedConfig.shape, ...placed }),
]);
export type AgentEntry = z.infer<typeof AgentEntry>;
/** The same as a person writes it: what has a default may be left out. */
export type AgentEntryInput = z.input<typeof AgentEntry>;

/** A simulated agent: the command line starts a simulator for it and has it play on that. */
export const SimEntry = z.strictObject({
  type: z.literal("sim"),
  ...ModelSettingsInput.shape,
  system: z.string().optional(),
  price: Price.optional(),
  ...placed,
});
export type SimEntry = z.infer<typeof SimEntry>;

/** An agent as a configuration file describes it. */
export const ConfigAgent = z.discriminatedUnion("type", [...AgentEntry.options, SimEntry]);
export type ConfigAgent = z.infer<typeof ConfigAgent>;

const perMinute = z.number().int().min(1).optional();

/** What is set for a lane, over all workers: turns at once, and what its provider allows. */
export const LaneEntry = z.strictObject({
  concurrency: z.number().int().min(1).optional(),
  requestsPerMinute: perMinute,
  tokensPerMinute: perMinute,
});

/** How long workers keep settled turns, and how many in one lane. */
export const RetentionEntry = z.strictObject({
  maxAgeMs: z.number().int().min(1).optional(),
  maxSettled: z.number().int().min(0).optional(),
});

/** A configuration file. */
export const ConfigFile = z.strictObject({
  $schema: z.string().optional(),
  agents: z.record(Name, ConfigAgent).default({}),
  lanes: z.record(Name, LaneEntry).default({}),
  retention: RetentionEntry.default({}),
});
export type ConfigFile = z.infer<typeof ConfigFile>;
/** The same as a person writes it: see `defineConfig`. */
export type TurnqConfig = z.input<typeof ConfigFile>;

/** The configuration that holds: what the file says, and where it is. */
export interface Config extends Readonly<ConfigFile> {
  /** Undefined when there is no file. */
  readonly file: string | undefined;
  /** What relative paths in it stand on: the file's folder, else the working folder. */
  readonly baseDir: string;
}

/** What turnq reads of the environment; all else of it is only passed on to agents, by allow-list. */
export interface Settings {
  /** `REDIS_URL`; without it the embedded Redis is used. */
  readonly redisUrl: string | undefined;
  /** `TURNQ_REDIS_SERVER`: the redis-server to use for the embedded one. */
  readonly redisServer: string | undefined;
  /** `TURNQ_LOG_LEVEL`: pino's levels and `silent`; `warn` unless set. */
  readonly logLevel: string;
  readonly path: string | undefined;
  /** True when npm started this process: then `npx` comes before what is to be typed next. */
  readonly startedByNpm: boolean;
}

const LEVELS = ["trace", "debug", "info", "warn", "error", "fatal", "silent"];

/** Reads the settings from an environment. Throws `config`. */
export function settingsOf(env: Readonly<Record<string, string | undefined>>): Settings {
  const logLevel = env["TURNQ_LOG_LEVEL"] ?? "warn";
  if (!LEVELS.includes(logLevel)) {
    throw new TurnqError("config", `"${logLevel}" is no log level`, {
      where: "TURNQ_LOG_LEVEL",
      hint: `Use one of ${LEVELS.join(", ")}.`,
    });
  }
  const text = (name: string): string | undefined => (env[name] === "" ? undefined : env[name]);
  return Object.freeze({
    redisUrl: text("REDIS_URL"),
    redisServer: text("TURNQ_REDIS_SERVER"),
    logLevel,
    path: env["PATH"],
    startedByNpm: text("npm_lifecycle_event") !== undefined || text("npm_command") !== undefined,
  });
}

/** The environment of this process; nothing else reads it. */
export function processEnvironment(): Readonly<Record<string, string | undefined>> {
  return process.env;
}

const NAMES = ["ts", "mts", "mjs", "js", "json"].map((extension) => `turnq.config.${extension}`);

export interface LoadOptions {
  /** The file; searched for from `cwd` upwards when not given. */
  readonly file?: string | undefined;
  readonly cwd: string;
  /** Fills `${NAME}` in texts; `$${NAME}` stays as `${NAME}`. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Gives what a file that imports `turnq` gets; it is looked for from the file's folder unless given. */
  readonly turnq?: (() => Promise<object>) | undefined;
}

/** Loads and checks the configuration. Throws `config`, naming the file and the field. */
export async function loadConfig(options: LoadOptions): Promise<Config> {
  const load = (file: string): Promise<unknown> => importFile(file, options.turnq);
  const search = lilconfig("turnq", {
    searchPlaces: NAMES,
    loaders: { ".ts": load, ".mts": load, ".mjs": load, ".js": load, ".json": readJson },
  });
  const found =
    options.file === undefined
      ? await search.search(options.cwd)
      : await loadFile(resolve(options.cwd, options.file), load);
  if (found === null)
    return deepFreeze({ file: undefined, baseDir: options.cwd, agents: {}, lanes: {}, retention: {} });
  const content = checkConfig(fillIn(found.config, options.env, found.filepath), found.filepath);
  return deepFreeze({ ...content, file: found.filepath, baseDir: dirname(found.filepath) });
}

async function loadFile(
  file: string,
  load: (file: string) => Promise<unknown>,
): Promise<{ readonly config: unknown; readonly filepath: string }> {
  return { filepath: file, config: extname(file) === ".json" ? await readJson(file) : await load(file) };
}

async function readJson(file: string): Promise<unknown> {
  try {
    return JSON.parse(await readFile(file, "utf8"));
  } catch (error) {
    throw new TurnqError("config", `cannot be read: ${messageOf(error)}`, { where: file, cause: error });
  }
}

async function importFile(file: string, turnq: LoadOptions["turnq"]): Promise<unknown> {
  try {
    // The names of this very copy, also where none is installed beside the file.
    const virtualModules = turnq === undefined ? {} : { turnq: await turnq() };
    // No cache on disk: it would be the one thing that a run leaves behind outside its folder.
    return await createJiti(import.meta.url, { fsCache: false, virtualModules }).import(file, { default: true });
  } catch (error) {
    throw new TurnqError("config", `cannot be loaded: ${messageOf(error)}`, { where: file, cause: error });
  }
}

/** Checks the content of a configuration. Throws `config` with every problem, by field. */
export function checkConfig(content: unknown, where: string): ConfigFile {
  const parsed = ConfigFile.safeParse(content);
  if (parsed.success) return parsed.data;
  throw new TurnqError("config", problemsOf(parsed.error, content, ConfigFile).map(fieldProblem).join("; "), { where });
}

/** What a program sets for a worker in the words of a configuration. */
const WorkerSettings = z.object({
  lanes: z.array(Name).optional(),
  allowMissing: z.boolean().optional(),
  concurrency: z.number().int().min(1).optional(),
  laneConcurrency: z.record(Name, z.number().int().min(1)).optional(),
  laneLimits: z.record(Name, LaneEntry).optional(),
  retention: RetentionEntry.optional(),
});

/** Checks what a program sets for a worker, as a configuration file is checked. Throws `config`. */
export function checkWorkerSettings(settings: unknown): void {
  const parsed = WorkerSettings.safeParse(settings);
  if (parsed.success) return;
  const problems = problemsOf(parsed.error, settings, WorkerSettings).map(fieldProblem);
  throw new TurnqError("config", problems.join("; "), { where: "worker" });
}

/** Checks an agent that a program gives in the words of a configuration, and fills in its defaults. Throws `config`. */
export function checkEntry(name: string, entry: unknown): AgentEntry {
  const checked = checkConfig({ agents: { [name]: entry } }, "agents").agents[name];
  if (checked === undefined || checked.type === "sim")
    throw new TurnqError("config", "a simulated agent is run by the command line alone", { where: `agent ${name}` });
  return checked;
}

/** What every agent has, however it is given. */
const AgentPlace = z.object({ name: Name, lane: Name, limits: LimitsInput.optional(), retry: RetryInput.optional() });

/** Checks the name, lane, limits and retry rules of an agent that a program gives as a value. Throws `config`. */
export function checkPlace(agent: {
  readonly name: unknown;
  readonly lane: unknown;
  readonly limits?: unknown;
  readonly retry?: unknown;
}): void {
  const parsed = AgentPlace.safeParse(agent);
  if (parsed.success) return;
  const problems = problemsOf(parsed.error, agent, AgentPlace).map(fieldProblem);
  throw new TurnqError("config", problems.join("; "), { where: `agent ${JSON.stringify(agent.name)}` });
}

/** Replaces `${NAME}` in every text by the environment's value; `$${NAME}` is a plain `${NAME}`. */
function fillIn(value: unknown, env: LoadOptions["env"], where: string): unknown {
  if (typeof value === "string") {
    return value.replaceAll(/\$?\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g, (whole, name: string) => {
      if (whole.startsWith("$$")) return whole.slice(1);
      const found = env[name];
      if (found === undefined) throw new TurnqError("config", `\${${name}} is not set in the environment`, { where });
      return found;
    });
  }
  if (Array.isArray(value)) return value.map((item) => fillIn(item, env, where));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, fillIn(item, env, where)]));
}
