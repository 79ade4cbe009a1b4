import { failure, type Failure } from "../domain/failure.ts";
import { messageOf } from "../domain/error.ts";
import { asText, type JsonObject } from "../domain/json.ts";
import type { LimitsInput, RetryInput } from "../domain/limits.ts";
import { textOf, type Message } from "../domain/message.ts";
import type { StopReason } from "../domain/stop-reason.ts";
import type { Input } from "../domain/turn-request.ts";
import { Agent, type AgentInit, type TurnAnswer } from "./agent.ts";
import type { AgentSpec } from "./agent-spec.ts";
import type { SpecOptions } from "./class-spec.ts";
import { emitterFor, type Emitter } from "./emitter.ts";
import type { AgentTurn } from "./ongoing-turn.ts";

/** What an agent's function is given. */
export interface AgentCall {
  readonly turn: string;
  readonly attempt: number;
  /** The turn's number in its session, from 1. */
  readonly iteration: number;
  readonly input: Input;
  /** The input's text, also when it is in parts. */
  readonly text: string;
  /** The conversation before this turn. */
  readonly history: readonly Message[];
  readonly options: JsonObject;
  /** The request's metadata; only with `metadata: true` in {@link DefineOptions}, and where the request has some. */
  readonly metadata?: JsonObject | undefined;
  /** The same for every attempt of a generation: for services that do a thing once per key. */
  readonly idempotencyKey: string;
  /** Aborted when the turn is killed: at its deadline, or some time after a cancel. */
  readonly signal: AbortSignal;
  /** To be asked after each message or tool result; when it answers, end soon with what there is. */
  readonly shouldStop: () => StopReason | undefined;
  readonly emit: Emitter;
}

/** What an agent's function may answer, beside plain text. */
export interface AgentReply {
  readonly output?: string | undefined;
  /** The agent or the model failed: `ok: false`, no crash. */
  readonly failure?: Failure | undefined;
  /** This turn's messages, where the function knows better than what it emitted. */
  readonly messages?: readonly Message[] | undefined;
  /** False: the answer is whole although `shouldStop` had answered. */
  readonly stopped?: boolean | undefined;
}

export type AgentFunction = (call: AgentCall) => string | AgentReply | void | Promise<string | AgentReply | void>;

export interface DefineOptions extends SpecOptions {
  /** False for a function that never asks `shouldStop`: limits that need it are then refused. */
  readonly cooperativeStop?: boolean | undefined;
  /** True when the function calls `emit.call` before every model call: then the usage of a lost attempt can be exact. */
  readonly announcesCalls?: boolean | undefined;
  /** True when the function reports `costUsd` with its usage: then a limit on cost can hold. */
  readonly knowsCost?: boolean | undefined;
}

const AGENT_VALUE: unique symbol = Symbol.for("turnq.agent") as never;

/** An agent as a value: what {@link defineAgent} gives. */
export interface DefinedAgent {
  readonly [AGENT_VALUE]: 1;
  readonly name: string;
  readonly run: AgentFunction;
  readonly cooperativeStop: boolean;
  readonly announcesCalls: boolean;
  readonly knowsCost?: boolean | undefined;
  readonly lane: string | undefined;
  readonly limits: LimitsInput | undefined;
  readonly retry: RetryInput | undefined;
  readonly metadata?: boolean | undefined;
}

/**
 * An agent from one function: it gets the input and answers with text. What it throws is a crash,
 * unless the error bears a `failure`. It runs in the worker's own process: code that may block or
 * end the process belongs in a module or a command.
 */
export function defineAgent(name: string, run: AgentFunction, options: DefineOptions = {}): DefinedAgent {
  return Object.freeze({
    [AGENT_VALUE]: 1 as const,
    name,
    run,
    cooperativeStop: options.cooperativeStop ?? true,
    announcesCalls: options.announcesCalls ?? false,
    ...(options.knowsCost === true ? { knowsCost: true } : {}),
    lane: options.lane,
    limits: options.limits,
    retry: options.retry,
    ...(options.metadata === true ? { metadata: true } : {}),
  });
}

/** True for what {@link defineAgent} gave, also in another copy of this package. */
export function isDefinedAgent(value: unknown): value is DefinedAgent {
  return typeof value === "object" && value !== null && Reflect.get(value, AGENT_VALUE) === 1;
}

/** The spec of an agent that is a value; what `options` say wins over the value's own. */
export function specOf(
  agent: DefinedAgent,
  options: SpecOptions & { readonly name?: string | undefined } = {},
): AgentSpec {
  const name = options.name ?? agent.name;
  return {
    name,
    lane: options.lane ?? agent.lane ?? name,
    kind: "value",
    abilities: {
      cooperativeStop: agent.cooperativeStop,
      announcesCalls: agent.announcesCalls,
      ...(agent.knowsCost === true ? { knowsCost: true } : {}),
    },
    limits: { ...agent.limits, ...options.limits },
    retry: { ...agent.retry, ...options.retry },
    wantsMetadata: options.metadata ?? agent.metadata,
    create: (init) => new FunctionAgent({ ...init, name, config: agent }),
  };
}

class FunctionAgent extends Agent<DefinedAgent> {
  static override readonly supportsCooperativeStop = true;

  protected override get announcesCalls(): boolean {
    return this.config.announcesCalls;
  }

  protected override async takeTurn(turn: AgentTurn): Promise<TurnAnswer> {
    let told: StopReason | undefined;
    const shouldStop = (): StopReason | undefined => {
      told = turn.shouldStop();
      return told;
    };
    let whole = false;
    try {
      const answered = await this.config.run(callOf(this.init, turn, shouldStop));
      const reply = replyOf(answered);
      whole = reply.stopped === false;
      const wrong = told === undefined && turn.collector.lastText() === "" ? wrongAnswer(answered) : undefined;
      // No crash, which would be retried: the same function would answer the same again.
      return wrong === undefined ? reply : { failure: failure("agent_error", wrong) };
    } finally {
      // Told to stop and ended since: whatever it answered or threw, it stopped.
      if (told !== undefined && !whole) this.markStopped(told);
    }
  }
}

/** Whatever a function answered, in a form that can be stored: an odd value must not cost a second run. */
function replyOf(answered: unknown): AgentReply {
  if (answered === undefined || answered === null) return {};
  if (typeof answered !== "object") return { output: asText(answered) };
  try {
    const { output, failure, messages, stopped } = answered as AgentReply;
    return { ...(output === undefined ? {} : { output: asText(output) }), failure, messages, stopped };
  } catch (thrown) {
    return { output: `[unreadable: ${messageOf(thrown)}]` };
  }
}

const REPLY_KEYS: readonly (keyof AgentReply)[] = ["output", "failure", "messages", "stopped"];

/** What is said of an object that is no reply; undefined for whatever else was answered. */
function wrongAnswer(answered: unknown): string | undefined {
  if (typeof answered !== "object" || answered === null) return undefined;
  try {
    if (REPLY_KEYS.some((key) => key in answered)) return undefined;
    const keys = Object.keys(answered).slice(0, 5).join(", ");
    const what = Array.isArray(answered) ? "a list" : keys === "" ? "an empty object" : `an object of ${keys}`;
    const how = "to give an object as the answer, return { output: JSON.stringify(answer) }";
    return `the agent's answer must be text, or an object with the text as "output"; it was ${what}: ${how}`;
  } catch {
    // What cannot even be looked at is told of in the reply.
    return undefined;
  }
}

function callOf(init: AgentInit<DefinedAgent>, turn: AgentTurn, shouldStop: AgentCall["shouldStop"]): AgentCall {
  return {
    turn: init.turn,
    attempt: init.attempt,
    iteration: init.iteration,
    input: turn.input,
    text: textOf(turn.input),
    history: turn.history,
    options: init.options,
    ...(turn.metadata === undefined ? {} : { metadata: turn.metadata }),
    idempotencyKey: init.idempotencyKey,
    // Made when it is asked for: most functions never do.
    get signal() {
      return turn.signal;
    },
    shouldStop,
    emit: emitterFor(turn),
  };
}
