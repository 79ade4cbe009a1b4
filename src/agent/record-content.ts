import type { Message } from "../domain/message.ts";
import type { Step } from "../domain/step.ts";
import type { PlanStep, TurnRecord } from "../domain/turn-record.ts";
import { readUsage, type Usage } from "../domain/usage.ts";
import { boundList, boundMessages } from "./bound-messages.ts";
import { validTurn } from "./transcript.ts";

/** What a record holds of the attempt's own doing. */
export interface Content {
  readonly output: string | undefined;
  readonly messages: Message[];
  readonly steps: Step[];
  readonly plan: PlanStep[];
  readonly usage: Usage;
  readonly model: string | undefined;
  /** What of it was cut, by whomever: `output` where it is taken from here. */
  readonly cuts: { readonly output: boolean; readonly transcript: boolean };
}

/** What another process has put into a record, as far as there is room for it. */
export function contentOf(record: TurnRecord, max: number | undefined): Content {
  const { input, output, truncated = [], model } = record;
  const messages = boundMessages(record.messages, max);
  const steps = boundList(record.steps, max);
  const plan = boundList(record.plan, max);
  const cutHere = messages !== record.messages || steps !== record.steps || plan !== record.plan;
  return {
    output,
    messages: validTurn(input, messages),
    steps: [...steps],
    plan: [...plan],
    usage: readUsage(record.usage),
    model,
    cuts: { output: truncated.includes("output"), transcript: cutHere || truncated.includes("transcript") },
  };
}

/** The field of a record that says what of it was cut. */
export function truncatedOf(output: boolean, transcript: boolean): Pick<TurnRecord, "truncated"> {
  if (!output && !transcript) return {};
  return { truncated: [...(output ? ["output" as const] : []), ...(transcript ? ["transcript" as const] : [])] };
}
