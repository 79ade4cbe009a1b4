import { z } from "zod";
import type { StartOptions } from "../../agent/agent.ts";
import type { AgentAbilities, AttemptInit } from "../../agent/agent-spec.ts";
import { Failure } from "../../domain/failure.ts";
import type { Json } from "../../domain/json.ts";
import type { Message } from "../../domain/message.ts";
import { StopReason } from "../../domain/stop-reason.ts";
import type { Input } from "../../domain/turn-request.ts";

/** Which agent a runner is for. */
export interface LoadOrder {
  readonly type: "load";
  readonly name: string;
  /** The file, as the config has it and as a path. */
  readonly module: string;
  readonly path: string;
  readonly export?: string | undefined;
  readonly config?: Json | undefined;
  /** Whether the agent is shown metadata, whatever it says itself. */
  readonly metadata?: boolean | undefined;
}

/** One turn for a runner. `id` tells the runner's turns apart, so that nothing late is taken for the next one's. */
export interface TurnOrder {
  readonly type: "turn";
  readonly id: number;
  readonly init: Omit<AttemptInit, "clock">;
  readonly start: StartOptions;
  readonly input: Input;
  readonly history: readonly Message[];
  readonly timeoutMs?: number | undefined;
  readonly maxSteps?: number | undefined;
}

export interface StopOrder {
  readonly type: "stop";
  readonly id: number;
  readonly reason: StopReason;
}

/** The answer to an announced call: it is stored, and may be made or not. In the order of the announcements. */
export interface StoredOrder {
  readonly type: "stored";
  readonly id: number;
  readonly mayCall: boolean;
}

/** What a worker tells a runner. */
export type RunnerOrder = LoadOrder | TurnOrder | StopOrder | StoredOrder;

const Abilities: z.ZodType<AgentAbilities> = z.object({
  cooperativeStop: z.boolean(),
  announcesCalls: z.boolean(),
  knowsCost: z.boolean().optional(),
});

/** What is known of a module's agent once it was loaded. */
export const ModuleFacts = z.object({
  abilities: Abilities,
  wantsCostLogTags: z.boolean(),
  wantsMetadata: z.boolean(),
});
export type ModuleFacts = z.infer<typeof ModuleFacts>;

/** What a runner tells its worker. Checked, since the agent's code shares the channel. */
export const RunnerReport = z.discriminatedUnion("type", [
  /** With the memory that its process holds, in bytes; so is `idle`. */
  z.object({ type: z.literal("loaded"), facts: ModuleFacts, rss: z.number() }),
  z.object({ type: z.literal("not_loaded"), message: z.string() }),
  /**
   * The turn is handed over: from here on its agent's code may run. Said before that, so that a runner that died without
   * it has run nothing of the turn.
   */
  z.object({ type: z.literal("taken"), id: z.number() }),
  z.object({ type: z.literal("event"), id: z.number(), event: z.unknown().optional() }),
  /** The turn is over: with its record, or with what was thrown and the partial record. */
  z.object({
    type: z.literal("ended"),
    id: z.number(),
    record: z.unknown().optional(),
    stopReason: StopReason.optional(),
    thrown: z.object({ message: z.string(), failure: Failure }).optional(),
  }),
  /** The agent was stopped: the runner may take another turn, unless this one left something behind. */
  z.object({ type: z.literal("idle"), id: z.number(), clean: z.boolean(), rss: z.number() }),
]);
export type RunnerReport = z.infer<typeof RunnerReport>;
export type TurnEnded = Extract<RunnerReport, { type: "ended" }>;
