import type { LimitsInput, RetryInput } from "../domain/limits.ts";
import { AGENT_CLASS, type Agent, type AgentInit } from "./agent.ts";
import type { AgentAbilities, AgentSpec } from "./agent-spec.ts";

/** What someone may say about an agent beside its name; the lane is the agent's name unless given. */
export interface SpecOptions {
  readonly lane?: string | undefined;
  readonly limits?: LimitsInput | undefined;
  readonly retry?: RetryInput | undefined;
  /** True: it is shown the turn's metadata. For a class its own word counts unless this is given. */
  readonly metadata?: boolean | undefined;
}

/** A concrete subclass of Agent. */
export interface AgentClass<Config = unknown> {
  new (init: AgentInit<Config>): Agent<Config>;
  readonly supportsCooperativeStop: boolean;
  readonly supportsCostLogTags: boolean;
  readonly wantsMetadata: boolean;
  readonly announcesCalls: boolean;
  readonly knowsCost: boolean;
}

/** True for a subclass of Agent, also of another copy of this package. */
export function isAgentClass(value: unknown): value is AgentClass {
  return typeof value === "function" && Reflect.get(value, AGENT_CLASS) === true;
}

/** What the agents of a class can do. */
export function abilitiesOfClass(
  agentClass: Pick<AgentClass, "supportsCooperativeStop" | "announcesCalls" | "knowsCost">,
): AgentAbilities {
  const { supportsCooperativeStop, announcesCalls, knowsCost } = agentClass;
  return { cooperativeStop: supportsCooperativeStop, announcesCalls, ...(knowsCost ? { knowsCost } : {}) };
}

/** The spec of an agent that is a class and a config. */
export function agentClassSpec<Config>(
  name: string,
  agentClass: AgentClass<Config>,
  config: Config,
  options: SpecOptions & { readonly kind?: string | undefined } = {},
): AgentSpec {
  return {
    name,
    lane: options.lane ?? name,
    kind: options.kind ?? "class",
    abilities: abilitiesOfClass(agentClass),
    limits: options.limits,
    retry: options.retry,
    wantsCostLogTags: agentClass.supportsCostLogTags,
    wantsMetadata: options.metadata ?? agentClass.wantsMetadata,
    create: (init) => new agentClass({ ...init, name, config }),
  };
}
