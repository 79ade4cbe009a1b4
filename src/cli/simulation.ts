import { createWriteStream } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { randomUUID } from "node:crypto";
import type { NamedEntry } from "../app.ts";
import type { ConfigAgent, SimEntry } from "../config.ts";
import { textOf } from "../domain/message.ts";
import type { TurnRequest } from "../domain/turn-request.ts";
import { modelSettings, type ModelSettingsInput } from "../simulator/model-settings.ts";
import type { Served } from "../simulator/served.ts";

/** Where a simulated agent's requests go while no simulator runs: a port that nobody may listen on. */
const NOWHERE = "http://127.0.0.1:0";
/** What simulated tokens cost, in US dollars a million, unless its entry says: made up, as all of it is. */
const PRICE = { inputPerMTok: 1, outputPerMTok: 4, cacheReadPerMTok: 0.1 };
/** A request that hangs on purpose shall not hold a turn for ten minutes. */
const LIMITS = { timeoutMs: 60_000 };

/** The agent that is there without a configuration. */
export const BUILT_IN_SIM: SimEntry = { type: "sim" };

/** A simulated agent's model: its name says what it is. */
export function simulatedModel(agent: string): string {
  return `simulated/${agent}`;
}

/** An agent of a configuration as turnq knows it: a simulated one is a chat agent on a simulator. */
export function playableEntry(name: string, entry: ConfigAgent, url = NOWHERE): NamedEntry {
  if (entry.type !== "sim") return { ...entry, name };
  const { lane, system, retry, price = PRICE, limits = {} } = entry;
  return {
    type: "chat",
    provider: "openai-compatible",
    name,
    baseUrl: `${url}/v1`,
    model: simulatedModel(name),
    price,
    limits: { ...LIMITS, ...limits },
    ...(lane === undefined ? {} : { lane }),
    ...(system === undefined ? {} : { system }),
    ...(retry === undefined ? {} : { retry }),
  };
}

/** The simulator behind the simulated agents of one command. */
export interface Simulation {
  /** The agents, playing on it. */
  readonly agents: readonly NamedEntry[];
  readonly url: string;
  readonly served: () => Promise<Served>;
  readonly close: () => Promise<void>;
}

export interface SimulationOptions {
  readonly agents: ReadonlyMap<string, SimEntry>;
  /** What `--sim` asks of all of them. */
  readonly settings?: ModelSettingsInput | undefined;
  /** Turns whose targets are its right answers; none where they are not known. */
  readonly requests?: (() => AsyncIterable<TurnRequest>) | undefined;
  /** A folder for its answers file, which is gone when this has answered. */
  readonly dir: string;
}

/** Starts a simulator for these agents; undefined when there are none. */
export async function startSimulation(options: SimulationOptions): Promise<Simulation | undefined> {
  const { agents, settings = {} } = options;
  if (agents.size === 0) return undefined;
  const { startOwnSimulator } = await import("../simulator/own-simulator.ts");
  const models = [...agents].map(([name, entry]) => {
    const { accuracy, seed, latencyMs, ratePerSecond, faults } = { ...entry, ...settings };
    return [simulatedModel(name), modelSettings({ accuracy, seed, latencyMs, ratePerSecond, faults })] as const;
  });
  const simulator = await startOwnSimulator(Object.fromEntries(models));
  try {
    if (options.requests !== undefined) await learnTargets(simulator.learn, options.requests(), options);
  } catch (error) {
    await simulator.close();
    throw error;
  }
  return {
    agents: [...agents].map(([name, entry]) => playableEntry(name, entry, simulator.url)),
    url: simulator.url,
    served: simulator.served,
    close: simulator.close,
  };
}

/** The targets go into the simulator's answers file: it never sees them with a turn. */
async function learnTargets(
  learn: (file: string) => Promise<void>,
  requests: AsyncIterable<TurnRequest>,
  { agents, dir }: SimulationOptions,
): Promise<void> {
  await mkdir(dir, { recursive: true });
  const file = join(dir, `answers-${randomUUID()}.jsonl`);
  try {
    await pipeline(Readable.from(answerLines(requests, agents)), createWriteStream(file, { mode: 0o600 }));
    await learn(file);
  } finally {
    await rm(file, { force: true });
  }
}

async function* answerLines(
  requests: AsyncIterable<TurnRequest>,
  agents: ReadonlyMap<string, SimEntry>,
): AsyncGenerator<string> {
  for await (const { agent, input, target, batch } of requests) {
    if (target === undefined || !agents.has(agent) || (batch?.epoch ?? 1) > 1) continue;
    const [first] = Array.isArray(target) ? target : [target];
    yield `${JSON.stringify({ input: textOf(input), answer: String(first ?? "") })}\n`;
  }
}
