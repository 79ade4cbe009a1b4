import { z } from "zod";
import { deepFreeze } from "./freeze.ts";
import { Json, toJson } from "./json.ts";
import { Message } from "./message.ts";
import { Usage } from "./usage.ts";

/** A tool as it was called inside a step. `unresolved`: the attempt ended before the tool did. */
export const ToolCall = z.object({
  id: z.string(),
  name: z.string(),
  args: Json,
  result: Json.optional(),
  status: z.enum(["ok", "error", "denied", "unresolved"]),
  startedAt: z.number(),
  endedAt: z.number().optional(),
});
export type ToolCall = z.infer<typeof ToolCall>;

/** One model call inside a turn, with the tools or the program it led to. */
export const Step = z.object({
  number: z.number().int().min(1),
  type: z.enum(["normal", "must_return", "retry"]),
  rawResponse: z.string(),
  program: z.string().optional(),
  result: Json,
  prints: z.array(z.string()),
  toolCalls: z.array(ToolCall),
  memory: Json,
  success: z.boolean(),
  messages: z.array(Message).optional(),
  systemPrompt: z.string().optional(),
  usage: Usage.optional(),
});
export type Step = z.infer<typeof Step>;

/** What a step is built from; what is left out is empty, the type `normal`. */
export interface StepFacts {
  readonly number: number;
  /** What the model said, always. */
  readonly rawResponse: string;
  readonly type?: Step["type"] | undefined;
  /** The program in it; absent when it could not be parsed. */
  readonly program?: string | undefined;
  readonly prints?: readonly string[] | undefined;
  readonly toolCalls?: readonly ToolCall[] | undefined;
  readonly memory?: unknown;
  readonly messages?: readonly Message[] | undefined;
  readonly systemPrompt?: string | undefined;
  readonly usage?: Usage | undefined;
}

/** Why a step failed, or any value. */
export type StepFailure = { readonly reason: string; readonly message?: string | undefined } | Json;

/** A step that did what it was to do. */
export function succeededStep(facts: StepFacts & { readonly result: unknown }): Readonly<Step> {
  return build(facts, facts.result, true);
}

/** A step that failed; `result` is `{reason, message?}` or any value. */
export function failedStep(facts: StepFacts & { readonly result: StepFailure }): Readonly<Step> {
  return build(facts, facts.result, false);
}

function build(facts: StepFacts, result: unknown, success: boolean): Readonly<Step> {
  const step: Step = {
    number: facts.number,
    type: facts.type ?? "normal",
    rawResponse: facts.rawResponse,
    result: toJson(result),
    prints: [...(facts.prints ?? [])],
    toolCalls: structuredClone([...(facts.toolCalls ?? [])]),
    memory: facts.memory === undefined ? {} : toJson(facts.memory),
    success,
    ...(facts.program === undefined ? {} : { program: facts.program }),
    ...(facts.messages === undefined ? {} : { messages: structuredClone([...facts.messages]) }),
    ...(facts.systemPrompt === undefined ? {} : { systemPrompt: facts.systemPrompt }),
    ...(facts.usage === undefined ? {} : { usage: { ...facts.usage } }),
  };
  return deepFreeze(step);
}
