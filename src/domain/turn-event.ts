import { z } from "zod";
import { Failure } from "./failure.ts";
import { Json } from "./json.ts";
import { StopReason } from "./stop-reason.ts";
import { AttemptStatus, PlanStep } from "./turn-record.ts";
import { Outcome } from "./turn-result.ts";
import { Usage } from "./usage.ts";

/** Where an event stands. `seq` counts from 1 over the turn; `at` is epoch ms. */
const place = {
  turn: z.string(),
  attempt: z.number().int().min(1),
  seq: z.number().int().min(1),
  at: z.number(),
};
/** Set on the events of a nested agent. */
const thread = { threadId: z.string().optional(), parentThreadId: z.string().optional() };

/** What can happen, without its place: what an agent emits. */
export const EventBody = z.discriminatedUnion("type", [
  z.object({ type: z.literal("agent_start"), agent: z.string(), model: z.string().optional(), ...thread }),
  z.object({ type: z.literal("step_start"), number: z.number().int().min(1), ...thread }),
  z.object({ type: z.literal("call_start"), model: z.string().optional(), ...thread }),
  z.object({ type: z.literal("text_delta"), text: z.string(), ...thread }),
  z.object({ type: z.literal("thought_delta"), text: z.string(), ...thread }),
  z.object({ type: z.literal("tool_start"), id: z.string(), name: z.string(), args: Json, ...thread }),
  z.object({
    type: z.literal("tool_end"),
    id: z.string(),
    status: z.enum(["ok", "error", "denied", "unresolved"]),
    result: Json.optional(),
    ...thread,
  }),
  z.object({ type: z.literal("plan"), plan: z.array(PlanStep), ...thread }),
  /** Cumulative for the attempt. */
  z.object({ type: z.literal("usage"), usage: Usage, ...thread }),
  z.object({ type: z.literal("step_end"), number: z.number().int().min(1), success: z.boolean(), ...thread }),
  z.object({
    type: z.literal("agent_end"),
    status: AttemptStatus,
    crashed: z.boolean(),
    output: z.string(),
    usage: Usage,
    stopReason: StopReason.optional(),
    failure: Failure.optional(),
    ...thread,
  }),
  /** Everything of this attempt is void as output. Added by the worker. */
  z.object({ type: z.literal("rolled_back"), reason: z.string() }),
  /** Once per generation, published by settle. */
  z.object({
    type: z.literal("turn_completed"),
    outcome: Outcome,
    ok: z.boolean(),
    generation: z.number().int().min(1),
  }),
]);
export type EventBody = z.infer<typeof EventBody>;

/** One event of a turn. */
export const TurnEvent = z.intersection(z.object(place), EventBody);
export type TurnEvent = z.infer<typeof TurnEvent>;
