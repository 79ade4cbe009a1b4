import type { Failure } from "../domain/failure.ts";
import type { JsonObject } from "../domain/json.ts";
import type { Limits } from "../domain/limits.ts";
import type { Message } from "../domain/message.ts";
import type { StopReason } from "../domain/stop-reason.ts";
import type { EventBody } from "../domain/turn-event.ts";
import type { TurnRecord } from "../domain/turn-record.ts";
import type { Clock } from "./deadline.ts";

/** Where and with what an agent works. */
export interface StartOptions {
  readonly workingDirectory: string;
  /** Folders that come before the others in the PATH of its programs. */
  readonly envPathPrepend?: readonly string[] | undefined;
  /** Becomes PLUGIN_TOOLS_DIR, unless `env` has one already. */
  readonly pluginToolsDir?: string | undefined;
  /** The environment of its programs, already cut down to what is allowed. */
  readonly env: Readonly<Record<string, string>>;
}

/**
 * When an event is stored, where somebody waits for that: false when the attempt is no longer the
 * current one, so that nothing may be paid for any more. Never rejects.
 */
export type EventStored = Promise<boolean> | undefined;

export interface CommunicateOptions {
  /** Must not throw; what it throws is ignored. */
  readonly onEvent?: ((event: EventBody) => EventStored | void) | undefined;
  /** The hard deadline, in ms from the call. */
  readonly timeoutMs?: number | undefined;
  /** Steps of this call. */
  readonly maxSteps?: number | undefined;
  readonly shouldStop?: (() => StopReason | undefined) | undefined;
  /** Aborted at the kill: with a {@link TurnTimeoutError} at the deadline, else it counts as a cancel. */
  readonly signal?: AbortSignal | undefined;
  /** The conversation before this turn. */
  readonly history?: readonly Message[] | undefined;
}

/** What a class with `supportsCostLogTags` sends to its provider, so that bills can be told apart. */
export interface CostLogTags {
  readonly turn: string;
  readonly attempt: number;
  readonly batch?: string | undefined;
  readonly agent: string;
}

/** What an agent is made with; one instance per attempt. */
export interface AgentInit<Config = unknown> {
  readonly name: string;
  readonly config: Config;
  readonly turn: string;
  readonly attempt: number;
  /** The turn's number in its session, from 1. */
  readonly iteration: number;
  readonly limits: Limits;
  /** The request's options: model, temperature … */
  readonly options: JsonObject;
  /** The request's metadata; only for an agent that asks for it. */
  readonly metadata?: JsonObject | undefined;
  /** The same for every attempt of a generation. */
  readonly idempotencyKey: string;
  /** The value of TURNQ_TURN for every process of this attempt. */
  readonly mark: string;
  /** Only for classes with `supportsCostLogTags`; for any other it is an error. */
  readonly costLogTags?: CostLogTags | undefined;
  /** The machine's clock unless given. */
  readonly clock?: Clock | undefined;
}

export type AgentState = "idle" | "working" | "finished" | "error";

/** What an agent's work came to. Nothing at all is an answer only when something was emitted. */
export interface TurnAnswer {
  /** The answer; by default the text of the last assistant message. */
  readonly output?: string | undefined;
  /** The agent or the model says that it failed: a failed record, no throw. */
  readonly failure?: Failure | undefined;
  /** This turn's messages, where the agent knows better than its events. */
  readonly messages?: readonly Message[] | undefined;
  /** The record of this turn, where another process has built it. */
  readonly record?: TurnRecord | undefined;
}
