import type { Limits, LimitsInput, RetryInput } from "../domain/limits.ts";
import type { Agent, AgentInit } from "./agent.ts";

/** The limits that need an agent which stops when told. */
const LIMITS_TO_HOLD = ["maxSteps", "maxToolCalls", "maxTokens", "maxCostUsd"] as const;

/** What an agent can do. Workers publish it, so that a producer can check a request. */
export interface AgentAbilities {
  /** It polls `shouldStop` at its safe boundaries and ends cleanly when told. */
  readonly cooperativeStop: boolean;
  /** It emits `call_start` before every model call it pays for, and no call without it. */
  readonly announcesCalls: boolean;
  /** It reports what its calls cost, so that a limit on cost can hold. False unless said. */
  readonly knowsCost?: boolean | undefined;
  /** Its processes are its own, so that their memory can be bounded. False unless said. */
  readonly boundsMemory?: boolean | undefined;
}

/** What a worker gives an agent that it makes for an attempt; the spec knows the name and the config. */
export type AttemptInit = Omit<AgentInit, "name" | "config">;

/** An agent as producers and workers know it: a name, its lane, what it can do, and how to make one for an attempt. */
export interface AgentSpec {
  readonly name: string;
  readonly lane: string;
  /** Where it comes from: `command`, `module`, `value`, `class`, `echo` … */
  readonly kind: string;
  readonly abilities: AgentAbilities;
  readonly limits?: LimitsInput | undefined;
  readonly retry?: RetryInput | undefined;
  /** True when its class has `supportsCostLogTags`: only then is it given them. */
  readonly wantsCostLogTags?: boolean | undefined;
  /** True when it asks to be shown the turn's metadata: only then is it. */
  readonly wantsMetadata?: boolean | undefined;
  /** Finds out what is not known before its code is loaded; `abilities`, `problem` and `lacking` are right after it. Never rejects. */
  readonly learn?: (() => Promise<void>) | undefined;
  /** Loads what its attempts need; a worker calls it before it takes turns. `problem` is right after it. Never rejects. */
  readonly prepare?: (() => Promise<void>) | undefined;
  /** Has the next `learn` and `prepare` try once more what failed. Until they have, `problem` and `lacking` stay. */
  readonly again?: (() => void) | undefined;
  /** Why it cannot run at all, once that is known. */
  readonly problem?: string | undefined;
  /** What it lacks in this process, as a key or a program: no worker here can run it, but others may, so a producer takes turns for it. */
  readonly lacking?: string | undefined;
  /** Makes the agent of one attempt. May throw: the attempt then ends with that failure. */
  readonly create: (init: AttemptInit) => Agent;
  /** Ends what the spec keeps warm between attempts. May be called twice. */
  readonly close?: (() => Promise<void>) | undefined;
}

/**
 * Why an agent of these abilities cannot take a request with these limits; undefined when it can.
 * A limit needs an agent that stops when told, one on cost an agent whose cost is known, and one on memory an agent
 * in processes of its own.
 */
export function unsupportedLimits(
  abilities: AgentAbilities,
  limits: Pick<Partial<Limits>, (typeof LIMITS_TO_HOLD)[number] | "maxMemoryMb">,
): string | undefined {
  if (limits.maxMemoryMb !== undefined && abilities.boundsMemory !== true)
    return "limits.maxMemoryMb needs an agent in processes of its own (command or module), and this one runs inside the worker";
  if (abilities.cooperativeStop) {
    if (limits.maxCostUsd === undefined || abilities.knowsCost === true) return undefined;
    return "limits.maxCostUsd needs an agent whose cost is known, and this one has no price";
  }
  const missing = LIMITS_TO_HOLD.filter((limit) => limits[limit] !== undefined);
  if (missing.length === 0) return undefined;
  const named = missing.map((limit) => `limits.${limit}`).join(", ");
  return `${named} ${missing.length === 1 ? "needs" : "need"} an agent that stops when told, and this one does not`;
}
