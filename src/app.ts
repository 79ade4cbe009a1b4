import { randomUUID } from "node:crypto";
import type { Redis } from "ioredis";
import type { AgentSpec } from "./agent/agent-spec.ts";
import { agentClassSpec, isAgentClass, type AgentClass } from "./agent/class-spec.ts";
import { isDefinedAgent, specOf, type DefinedAgent } from "./agent/define-agent.ts";
import { chatAgent } from "./agents/chat/chat-agent.ts";
import { commandAgent } from "./agents/command/command-agent.ts";
import { echoAgent } from "./agents/echo/echo-agent.ts";
import { moduleAgent } from "./agents/module/module-agent.ts";
import { noopAgent } from "./agents/noop/noop-agent.ts";
import { scriptedAgent } from "./agents/scripted/scripted-agent.ts";
import { didYouMean } from "./parse/nearest.ts";
import { scoreOf } from "./batch/score.ts";
import { checkEntry, checkPlace, checkWorkerSettings, type AgentEntry, type AgentEntryInput } from "./config.ts";
import { TurnqError } from "./domain/error.ts";
import { STORE_KEYS } from "./ledger/keys.ts";
import { openProcesses, type Processes } from "./process/processes.ts";
import { markText } from "./process/mark.ts";
import { sweepDeadWorkers } from "./process/sweep.ts";
import { workerId } from "./process/worker-id.ts";
import { Directory } from "./queue/directory.ts";
import { LaneSet } from "./queue/lane-set.ts";
import { missingError, readyAgents } from "./queue/missing-agents.ts";
import { Producer } from "./queue/producer.ts";
import { SettledWatch } from "./queue/settled-watch.ts";
import { TurnWorker } from "./queue/worker.ts";
import type { ProcessPort } from "./queue/worker-context.ts";
import { refuseClusterNode } from "./redis/cluster.ts";
import { connect, whenReady, type RedisTarget } from "./redis/connection.ts";
import { evictionPolicy } from "./redis/eviction.ts";
import { SILENT, type Log } from "./telemetry/log.ts";
import { Turnq, type WorkerOptions } from "./turnq.ts";

/** An agent of a configuration, with its name. */
export type NamedEntry = AgentEntryInput & { readonly name: string };
/** A subclass of Agent, with its name and its config. */
export interface NamedClass {
  readonly name: string;
  readonly class: AgentClass<never>;
  readonly config?: unknown;
  readonly lane?: string | undefined;
  /** Whether it is shown the turn's metadata; as the class's `wantsMetadata` says unless given. */
  readonly metadata?: boolean | undefined;
}
/** Whatever can be given as an agent. */
export type AgentLike = DefinedAgent | NamedClass | NamedEntry;

export interface OpenOptions {
  /** A URL (`redis+cluster://host:port,…` for a Redis Cluster), ioredis options, or an ioredis Redis or Cluster, of which a duplicate is made. */
  readonly redis: RedisTarget;
  /** Agents that this process knows without asking the store: workers may run them, producers check against them. */
  readonly agents?: readonly AgentLike[] | undefined;
  /** What relative paths in agents stand on, and where they run; the working folder unless given. */
  readonly baseDir?: string | undefined;
  /** The environment that agent programs are given a part of, by allow-list; nothing unless given. */
  readonly env?: Readonly<Record<string, string | undefined>> | undefined;
  /** How long Redis may take to be there, in ms; 5 s unless given. */
  readonly connectWithinMs?: number | undefined;
  readonly log?: Log | undefined;
}

const CONNECT_WITHIN_MS = 5000;

/**
 * Opens turnq on a Redis. Reads no environment, installs no signal handler, never ends the process.
 * Throws `redis_unreachable`, `redis_refused`, or `config` for an agent that cannot be.
 */
export async function openTurnq(options: OpenOptions): Promise<Turnq> {
  const log = options.log ?? SILENT;
  const redis = connect(options.redis, "producer", { name: "turnq" });
  try {
    await whenReady(redis, options.connectWithinMs ?? CONNECT_WITHIN_MS);
    await refuseClusterNode(redis);
    return await compose(options, redis, log);
  } catch (error) {
    redis.disconnect();
    throw error;
  }
}

async function compose(options: OpenOptions, redis: Redis, log: Log): Promise<Turnq> {
  const baseDir = options.baseDir ?? process.cwd();
  const [store, evicts] = await Promise.all([storeId(redis), evictionPolicy(redis)]);
  if (evicts !== undefined)
    log.error(
      { code: "redis_evicts", policy: evicts },
      "this Redis drops turns when its memory is full: start it with --maxmemory-policy noeviction",
    );
  const worker = workerId();
  const processes = openProcesses({
    store,
    worker,
    env: options.env ?? {},
    onSupervisorRestart: () => log.warn({}, "the supervisor of agent processes died and was started again"),
  });
  const deps: SpecDeps = { processes, baseDir, env: options.env ?? {} };
  const specs = specsOf(options.agents ?? [], deps);
  const directory = new Directory(redis, specs, didYouMean);
  await directory.refresh();
  const lanes = new LaneSet(redis, log);
  const watch = new SettledWatch(() => connect(options.redis, "worker", { name: "turnq-watch" }), log);
  const users = new SpecUsers();
  const openWithin = async (wanted: WorkerOptions, concurrency: number, endMemory: () => void) => {
    const wantedSpecs = wanted.agents === undefined ? specs : specsOf(wanted.agents, deps);
    const { working, missing } = await readyAgents(wantedSpecs);
    if (missing.size > 0 && wanted.allowMissing !== true) throw missingError(missing, wantedSpecs.length);
    for (const { name, kind, abilities } of wantedSpecs)
      if (kind === "chat" && abilities.knowsCost !== true)
        log.warn({ agent: name }, "an agent has no price: what its turns cost is not known");
    const own = connect(options.redis, "worker", { name: "turnq-worker" });
    try {
      await whenReady(own, options.connectWithinMs ?? CONNECT_WITHIN_MS);
      const swept = await sweepDeadWorkers(store);
      if (swept > 0) log.warn({ processes: swept }, "processes that dead workers left behind were killed");
    } catch (error) {
      own.disconnect();
      throw error;
    }
    const endSpecs = users.use(wantedSpecs);
    const inner = new TurnWorker({
      redis: own,
      workerId: worker,
      specs: working,
      missing,
      closeSpecs: async () => {
        endMemory();
        await endSpecs();
      },
      moreLanes: wanted.lanes,
      concurrency,
      laneConcurrency: wanted.laneConcurrency,
      laneLimits: wanted.laneLimits,
      retention: wanted.retention,
      processes: processPort(processes, store, worker),
      start: { workingDirectory: baseDir, env: processes.allowedEnv() },
      onStart: wanted.onStart,
      onEnd: wanted.onEnd,
      score: scoreOf,
      directory,
      lanes: new LaneSet(own, log),
      log,
    });
    return { inner, redis: own };
  };
  const openWorker = async (wanted: WorkerOptions) => {
    checkWorkerSettings(wanted);
    const concurrency = wanted.concurrency ?? 10;
    // Before modules are loaded: what loads them is to take turns.
    const endMemory = processes.memory.use(concurrency);
    try {
      return await openWithin(wanted, concurrency, endMemory);
    } catch (error) {
      endMemory();
      throw error;
    }
  };
  return new Turnq({
    redis,
    lanes,
    directory,
    watch,
    producer: new Producer(redis, lanes, directory),
    openWorker,
    closeProcesses: () => processes.close(),
  });
}

/** Counts who uses a spec: workers of one process share those that openTurnq was given. */
class SpecUsers {
  readonly #users = new Map<AgentSpec, number>();

  /** Gives what ends this use; a spec without users ends what it keeps warm. */
  use(specs: readonly AgentSpec[]): () => Promise<void> {
    for (const spec of specs) this.#users.set(spec, (this.#users.get(spec) ?? 0) + 1);
    return async () => {
      await Promise.all(specs.map((spec) => this.#leave(spec)));
    };
  }

  async #leave(spec: AgentSpec): Promise<void> {
    const left = (this.#users.get(spec) ?? 1) - 1;
    if (left > 0) {
      this.#users.set(spec, left);
      return;
    }
    this.#users.delete(spec);
    await spec.close?.();
  }
}

/** The random id of a store, made by whoever comes first: marks of processes carry it. */
async function storeId(redis: Redis): Promise<string> {
  await redis.set(STORE_KEYS.store, randomUUID().slice(0, 8), "NX");
  const id = await redis.get(STORE_KEYS.store);
  if (id === null)
    throw new TurnqError("redis_refused", "the store's id was not kept", {
      hint: "Redis must not evict keys: set maxmemory-policy noeviction.",
    });
  return id;
}

function processPort(processes: Processes, store: string, worker: string): ProcessPort {
  return {
    mark: ({ lane, turn, attempt }) => markText({ store, lane, turn, attempt, worker }),
    sweepEarlier: async ({ lane, turn }) => {
      await processes.sweepMark({ store, lane, turn });
    },
  };
}

/** What specs are made with. */
interface SpecDeps {
  readonly processes: Processes;
  readonly baseDir: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}

function specsOf(agents: readonly AgentLike[], deps: SpecDeps): AgentSpec[] {
  const specs = agents.map((agent) => specOfAny(agent, deps));
  for (const spec of specs) checkPlace(spec);
  const names = specs.map(({ name }) => name);
  const twice = names.find((name, i) => names.indexOf(name) < i);
  if (twice !== undefined) throw new TurnqError("config", `the agent "${twice}" is given twice`, { where: "agents" });
  return specs;
}

function specOfAny(agent: AgentLike, deps: SpecDeps): AgentSpec {
  // TypeScript checks nothing any more once it runs.
  if (typeof agent !== "object" || (agent as unknown) === null)
    throw new TurnqError("config", `${JSON.stringify(agent)} is no agent`, { where: "agents" });
  if (isDefinedAgent(agent)) return specOf(agent);
  if ("class" in agent) {
    const { lane, metadata } = agent;
    if (!isAgentClass(agent.class))
      throw new TurnqError("config", "is no subclass of Agent", { where: `agent ${agent.name}` });
    return agentClassSpec<unknown>(agent.name, agent.class, agent.config, { lane, metadata });
  }
  const { name, ...entry } = agent;
  return specOfEntry(name, checkEntry(name, entry), deps);
}

function specOfEntry(name: string, entry: AgentEntry, deps: SpecDeps): AgentSpec {
  switch (entry.type) {
    case "chat":
      return chatAgent(name, entry, deps);
    case "command":
      return commandAgent(name, entry, deps);
    case "module":
      return moduleAgent(name, entry, deps);
    case "echo":
      return echoAgent(name, entry);
    case "noop":
      return noopAgent(name, entry);
    case "scripted":
      return scriptedAgent(name, { script: entry.script }, entry);
  }
}
