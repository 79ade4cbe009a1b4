import type { Redis } from "ioredis";
import { z } from "zod";
import { unsupportedLimits, type AgentAbilities, type AgentSpec } from "../agent/agent-spec.ts";
import { LimitsInput, RetryInput } from "../domain/limits.ts";
import { TurnqError } from "../domain/error.ts";
import type { TurnRequest } from "../domain/turn-request.ts";
import { STORE_KEYS } from "../ledger/keys.ts";
import { effect } from "../pause/effect.ts";

/** What a producer must know of an agent. */
export type KnownAgent = Pick<
  AgentSpec,
  "name" | "lane" | "kind" | "abilities" | "limits" | "retry" | "learn" | "problem" | "lacking"
>;

const Published = z.object({
  name: z.string(),
  lane: z.string(),
  kind: z.string(),
  abilities: z.custom<AgentAbilities>((value) => typeof value === "object" && value !== null),
  limits: LimitsInput.optional(),
  retry: RetryInput.optional(),
  /** When it was published last, epoch ms. */
  at: z.number().optional(),
});

/** How often a worker publishes its agents anew, in ms. */
const PUBLISH_EVERY_MS = 60_000;
/** An agent that nobody has published for so long is known no more, in ms. */
const KNOWN_MS = 7 * 86_400_000;

/** Most names in a message. */
const NAMES_SHOWN = 20;

/** What workers published of their agents, and what this process knows by itself, which wins. */
export class Directory {
  readonly #redis: Redis;
  readonly #suggest: (word: string, known: readonly string[]) => string;
  readonly #own: ReadonlyMap<string, KnownAgent>;
  #published = new Map<string, KnownAgent>();
  #publishedAt = 0;

  /** `suggest` gives the known word that was probably meant, as a remark with a blank before it, or "". */
  constructor(redis: Redis, own: readonly KnownAgent[], suggest: (word: string, known: readonly string[]) => string) {
    this.#redis = redis;
    this.#suggest = suggest;
    this.#own = new Map(own.map((agent) => [agent.name, agent]));
  }

  /** Tells producers without a configuration what this worker runs. */
  async publish(agents: readonly KnownAgent[]): Promise<void> {
    if (agents.length === 0) return;
    const at = Date.now();
    const fields = agents.map(
      ({ name, lane, kind, abilities, limits, retry }) =>
        [name, JSON.stringify({ name, lane, kind, abilities, limits, retry, at })] as const,
    );
    await effect("agents:publish", () => this.#redis.hset(STORE_KEYS.agents, Object.fromEntries(fields)));
    this.#publishedAt = at;
  }

  /** To be called again and again by a worker: publishes its agents anew when it is time, and drops those of workers long gone. */
  async keepPublished(agents: readonly KnownAgent[], now = Date.now()): Promise<void> {
    if (now - this.#publishedAt < PUBLISH_EVERY_MS) return;
    await this.publish(agents);
    this.#publishedAt = now;
    for (const [name, json] of Object.entries(await this.#redis.hgetall(STORE_KEYS.agents))) {
      if (!isForgotten(json, now)) continue;
      // Its worker may have come back at this moment; should it do so between these two calls, it publishes again soon.
      const latest = await this.#redis.hget(STORE_KEYS.agents, name);
      if (latest === null || !isForgotten(latest, now)) continue;
      await effect("agents:drop", () => this.#redis.hdel(STORE_KEYS.agents, name));
    }
  }

  /** Reads anew what is published. */
  async refresh(): Promise<void> {
    const fields = await this.#redis.hgetall(STORE_KEYS.agents);
    this.#published = new Map();
    for (const [name, json] of Object.entries(fields)) {
      if (isForgotten(json, Date.now())) continue;
      const parsed = Published.safeParse(readJson(json));
      if (parsed.success) this.#published.set(name, parsed.data);
    }
  }

  /** Has the agents of this process loaded, where that is needed to know what they can do; all of them unless named. */
  async learn(names: readonly string[] = [...this.#own.keys()]): Promise<void> {
    await Promise.all(names.map(async (name) => this.#own.get(name)?.learn?.()));
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
    if (agent !== undefined) return agent.problem ?? unsupportedLimits(agent.abilities, request.limits ?? {});
    const names = this.names();
    if (names.length === 0) return undefined;
    const more = names.length > NAMES_SHOWN ? ` and ${names.length - NAMES_SHOWN} more` : "";
    return `unknown agent "${name}"${this.#suggest(name, names)}; known are ${names.slice(0, NAMES_SHOWN).join(", ")}${more}`;
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
