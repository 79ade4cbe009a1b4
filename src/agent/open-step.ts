import { asText, toJson } from "../domain/json.ts";
import { Message } from "../domain/message.ts";
import { failedStep, Step, succeededStep, type StepFacts } from "../domain/step.ts";
import { addUsage } from "../domain/usage.ts";
import { toolCallOf, type Segment } from "./transcript.ts";

/** What a step has beyond its events. */
export type StepDetails = Pick<StepFacts, "type" | "program" | "prints" | "memory" | "messages" | "systemPrompt"> & {
  readonly rawResponse?: string | undefined;
  readonly result?: unknown;
};

/** Details as an agent gave them, with nothing in them that cannot be stored: texts made of what is none, the rest left out. Never throws. */
export function cleanDetails(said: StepDetails): StepDetails {
  try {
    const { type, program, prints, memory, messages, systemPrompt, rawResponse } = said;
    const known = Step.shape.type.safeParse(type).data;
    const read = messages === undefined ? undefined : Message.array().safeParse(toJson(messages)).data;
    return {
      ...(known === undefined ? {} : { type: known }),
      ...(program === undefined ? {} : { program: asText(program) }),
      ...(Array.isArray(prints) ? { prints: prints.map(asText) } : {}),
      ...(memory === undefined ? {} : { memory: toJson(memory) }),
      ...(read === undefined ? {} : { messages: read }),
      ...(systemPrompt === undefined ? {} : { systemPrompt: asText(systemPrompt) }),
      ...(rawResponse === undefined ? {} : { rawResponse: asText(rawResponse) }),
      ...(said.result === undefined ? {} : { result: toJson(said.result) }),
    };
  } catch {
    return {};
  }
}

/** A step as it grows; `success` is undefined until it has ended. */
export interface OpenStep {
  readonly number: number;
  success: boolean | undefined;
  details: StepDetails;
}

/** The step as a record keeps it, with what its segments say. One that has not ended has failed as `unfinished`. */
export function stepOf({ number, success, details }: OpenStep, segments: readonly Segment[]): Readonly<Step> {
  const own = segments.filter((segment) => segment.step === number);
  const text = own.map((segment) => segment.text).join("");
  const booked = own.flatMap(({ usage }) => (usage === undefined ? [] : [usage]));
  const { result, rawResponse, ...rest } = details;
  const facts: StepFacts = {
    ...rest,
    number,
    rawResponse: rawResponse ?? text,
    toolCalls: own.flatMap((segment) => segment.tools.map(toolCallOf)),
    usage: booked.length === 0 ? undefined : booked.reduce(addUsage),
  };
  if (success === true) return succeededStep({ ...facts, result: result === undefined ? text : result });
  const why = success === undefined ? { reason: "unfinished" } : { reason: "failed" };
  return failedStep({ ...facts, result: result === undefined ? why : toJson(result) });
}
