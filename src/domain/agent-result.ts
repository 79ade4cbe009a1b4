import { z } from "zod";
import { deepFreeze } from "./freeze.ts";
import { Message, lastAssistantText } from "./message.ts";
import { PlanStep, endedWell, type TurnRecord } from "./turn-record.ts";

/** The outcome of one conversation turn, as an agent's caller sees it. */
export const AgentResultData = z.object({
  messages: z.array(Message),
  stepsUsed: z.number().int().nonnegative(),
  cancelled: z.boolean(),
  budgetExhausted: z.boolean(),
  planSteps: z.array(PlanStep),
  error: z.string(),
});
export type AgentResultData = z.infer<typeof AgentResultData>;

/** What {@link AgentResult.toTurnCompletedEvent} gives: the facts of `turn_completed` that an agent knows. */
export interface TurnCompletedFacts {
  readonly type: "turn_completed";
  readonly ok: boolean;
  readonly finalText: string;
  readonly stepsUsed: number;
  readonly cancelled: boolean;
  readonly budgetExhausted: boolean;
  readonly error: string;
}

/** `messages` is the whole conversation after the turn; `error` is `""` when there is none. */
export interface AgentResult extends Readonly<AgentResultData> {
  /** The last assistant message with real content, which need not be the last message. */
  readonly finalText: string;
  /** No error and not cancelled; reaching a limit is still ok. */
  readonly ok: boolean;
  toTurnCompletedEvent(): TurnCompletedFacts;
}

/** Builds an {@link AgentResult} from its six facts. */
export function agentResultOf(data: AgentResultData): AgentResult {
  const facts = deepFreeze(structuredClone(data));
  const finalText = lastAssistantText(facts.messages);
  const ok = facts.error === "" && !facts.cancelled;
  const { stepsUsed, cancelled, budgetExhausted, error } = facts;
  return Object.freeze({
    ...facts,
    finalText,
    ok,
    toTurnCompletedEvent: () => ({
      type: "turn_completed" as const,
      ok,
      finalText,
      stepsUsed,
      cancelled,
      budgetExhausted,
      error,
    }),
  });
}

/** The outcome of the turn that `record` is the account of, after the conversation `history`. */
export function agentResult(record: TurnRecord, history: readonly Message[]): AgentResult {
  const good = endedWell(record.status) || record.status === "cancelled";
  return agentResultOf({
    messages: [...history, ...record.messages],
    stepsUsed: record.steps.length,
    cancelled: record.status === "cancelled",
    budgetExhausted: record.status === "limit_reached",
    planSteps: [...record.plan],
    // A failure without words is a failure all the same.
    error: good ? "" : record.failure?.message || record.crashReason || record.status,
  });
}
