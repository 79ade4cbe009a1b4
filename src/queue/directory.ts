import type { Redis } from "ioredis";
import { z } from "zod";
import { unsupportedLimits, type AgentAbilities, type AgentSpec } from "../agent/agent-spec.ts";
import { LimitsInput, RetryInput } from "../domain/limits.ts";
import { TurnqError } from "../domain/error.ts";
import type { TurnRequest } from "../domain/turn-request.ts";
import { STORE_KEYS } from "../ledger/keys.ts";
import { redisNow } from "../ledger/redis-now.ts";
import { effect } from "../pause/effect.ts";
import { TRY_AGAIN_EVERY_MS } from "./missing-agents.ts";
import { isServed, WorkerRegistry, type WorkerInfo } from "./worker-registry.ts";

/** What a producer must know of an agent. */
export type KnownAgent = Pick<
  AgentSpec,
  "name" | "lane" | "kind" | "abilities" | "limits" | "retry" | "learn" | "again" | "problem" | "lacking"
>;

const Published = z.object({
  name: z.string(),
  lane: z.string(),
  kind: z.string(),
  abilities: z.custom<AgentAbilities>((value) => typeof value === "object" && value !== null),
  limits: LimitsInput.optional(),
  retry: RetryInput.optional(),
  /** When a worker published it last, epoch ms by the clock of Redis. */
  at: z.number().optional(),
});
type Published = z.infer<typeof Published>;

/** How often a worker publishes its agents anew, in ms: so exactly it is known since when nobody runs them. */
const PUBLISH_EVERY_MS = 10_000;
/** How often a worker looks for what nobody has published for long, in ms. */
const DROP_EVERY_MS = 60_000;
/** An agent that nobody has published for so long is known no more, in ms: until then turns for it find their lane. */
const KNOWN_MS = 7 * 86_400_000;

/** Most names in a message. */
const NAMES_SHOWN = 20;

/** What workers published of their agents and which of them are up, and what this process knows by itself, which wins. */
export class Directory {
  readonly #redis: Redis;
  readonly #suggest: (word: string, known: readonly string[]) => string;
  readonly #own: ReadonlyMap<string, KnownAgent>;
  readonly #registry: WorkerRegistry;
  #published: ReadonlyMap<string, Published> = new Map();
  #workers: readonly WorkerInfo[] = [];
  /** By agent: workers of one process have agents of their own. */
  readonly #publishedAt = new Map<string, number>();
  #droppedAt = 0;
  /** When agents of this process that could not be loaded were tried again, in ms of `performance.now()`. */
  readonly #triedMs = new Map<string, number>();

  /** `suggest` gives the known word that was probably meant, as a remark with a blank before it, or "". */
  constructor(redis: Redis, own: readonly KnownAgent[], suggest: (word: string, known: readonly string[]) => string) {
    this.#redis = redis;
    this.#suggest = suggest;
    this.#registry = new WorkerRegistry(redis);
    this.#own = new Map(own.map((agent) => [agent.name, agent]));
  }

  /** Tells producers without a configuration what this worker runs. */
  async publish(agents: readonly KnownAgent[], now = Date.now()): Promise<void> {
    if (agents.length === 0) return;
    const at = await redisNow(this.#redis);
    const fields = agents.map(
      ({ name, lane, kind, abilities, limits, retry }) =>
        [name, JSON.stringify({ name, lane, kind, abilities, limits, retry, at })] as const,
    );
    await effect("agents:publish", () => this.#redis.hset(STORE_KEYS.agents, Object.fromEntries(fields)));
    for (const { name } of agents) this.#publishedAt.set(name, now);
  }

  /** To be called again and again by a worker: publishes its agents anew when it is time, and drops those of workers long gone. */
  async keepPublished(agents: readonly KnownAgent[], now = Date.now()): Promise<void> {
    const due = agents.filter(({ name }) => now - (this.#publishedAt.get(name) ?? 0) >= PUBLISH_EVERY_MS);
    if (due.length === 0) return;
    await this.publish(due, now);
    if (now - this.#droppedAt >= DROP_EVERY_MS) await this.#drop(now);
  }

  async #drop(now: number): Promise<void> {
    this.#droppedAt = now;
    for (const [name, json] of Object.entries(await this.#redis.hgetall(STORE_KEYS.agents))) {
      if (!isForgotten(json, now)) continue;
      // Its worker may have come back at this moment; should it do so between these two calls, it publishes again soon.
      const latest = await this.#redis.hget(STORE_KEYS.agents, name);
      if (latest === null || !isForgotten(latest, now)) continue;
      await effect("agents:drop", () => this.#redis.hdel(STORE_KEYS.agents, name));
    }
  }

  /** Reads anew what is published, and which workers are up. */
  async refresh(): Promise<void> {
    const [fields, workers] = await Promise.all([this.#redis.hgetall(STORE_KEYS.agents), this.#registry.list()]);
    const published = new Map<string, Published>();
    for (const [name, json] of Object.entries(fields)) {
      if (isForgotten(json, Date.now())) continue;
      const parsed = Published.safeParse(readJson(json));
      if (parsed.success) published.set(name, parsed.data);
    }
    this.#published = published;
    this.#workers = workers;
  }

  /**
   * Has the agents of this process loaded, where that is needed to know what they can do; all of them unless named. What
   * could not be loaded is tried again, at most every 10 s.
   */
  async learn(names: readonly string[] = [...this.#own.keys()]): Promise<void> {
    await Promise.all(names.map(async (name) => this.#learn(name)));
  }

  async #learn(name: string): Promise<void> {
    const agent = this.#own.get(name);
    const nowMs = performance.now();
    if (nowMs - (this.#triedMs.get(name) ?? nowMs) >= TRY_AGAIN_EVERY_MS) {
      agent?.again?.();
      this.#triedMs.delete(name);
    }
    await agent?.learn?.();
    if (agent?.problem !== undefined && !this.#triedMs.has(name)) this.#triedMs.set(name, performance.now());
  }

  /** Since when no worker runs this agent, epoch ms, as far as that is known; undefined while one does. As of the last reading. */
  unservedSince(name: string): number | undefined {
    return isServed(this.#workers, name) ? undefined : this.#published.get(name)?.at;
  }

  /** When a worker published this agent last, epoch ms; asks Redis. */
  async publishedAt(name: string): Promise<number | undefined> {
    const json = await this.#redis.hget(STORE_KEYS.agents, name);
    return json === null ? undefined : Published.safeParse(readJson(json)).data?.at;
  }

  /** The names to tell somebody who has named none of them: not of agents that nobody runs any more, while there are others. */
  namesToTell(): string[] {
    const names = this.names();
    const here = names.filter((name) => this.#own.has(name) || isServed(this.#workers, name));
    return here.length > 0 ? here : names;
  }

  names(): string[] {
    return [...new Set([...this.#own.keys(), ...this.#published.keys()])].toSorted();
  }

  find(name: string): KnownAgent | undefined {
    return this.#own.get(name) ?? this.#published.get(name);
  }

  /** Why this agent can take no request at all here, as a part of a sentence; with `runsHere` also what it lacks to run in this process. */
  fault(name: string, { runsHere = false }: { readonly runsHere?: boolean | undefined } = {}): string | undefined {
    const agent = this.find(name);
    return agent?.problem ?? (runsHere ? agent?.lacking : undefined);
  }

  /** Why this agent cannot take this request, as a sentence; undefined when it can. Where no agent is known at all, nothing is refused. */
  problem(name: string, request: Pick<TurnRequest, "limits">): string | undefined {
    const agent = this.find(name);
    if (agent !== undefined)
      return agent.problem ?? unsupportedLimits(agent.abilities, { ...agent.limits, ...request.limits });
    const known = this.names();
    if (known.length === 0) return undefined;
    const names = this.namesToTell();
    const more = names.length > NAMES_SHOWN ? ` and ${names.length - NAMES_SHOWN} more` : "";
    return `unknown agent "${name}"${this.#suggest(name, known)}; known are ${names.slice(0, NAMES_SHOWN).join(", ")}${more}`;
  }

  /** Like {@link problem}, as the error that refuses the request. */
  check(request: TurnRequest): void {
    const problem = this.problem(request.agent, request);
    if (problem === undefined) return;
    throw new TurnqError(this.find(request.agent) === undefined ? "unknown_agent" : "unsupported", problem, {
      where: "agent",
    });
  }
}

/** An entry that does not say when it was published, or cannot be read, counts as old: whoever is alive publishes it again. */
function isForgotten(json: string, now: number): boolean {
  const parsed = Published.safeParse(readJson(json));
  return !parsed.success || now - (parsed.data.at ?? 0) > KNOWN_MS;
}

/** One entry that cannot be read must not hide the others. */
function readJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
