import { z } from "zod";
import { FailureCode } from "../../domain/failure.ts";
import { Json } from "../../domain/json.ts";
import { PlanStep } from "../../domain/turn-record.ts";

/** No program has used more of anything in one attempt; what says so is mistaken. */
const ABSURD = 1e12;
const count = z.number().int().nonnegative().max(ABSURD).optional();

/** What a program may say, one JSON object per line. Other fields are ignored. */
export const ProtocolLine = z.discriminatedUnion("type", [
  z.object({ type: z.literal("text"), text: z.string() }),
  z.object({ type: z.literal("thought"), text: z.string() }),
  z.object({ type: z.literal("step_start"), number: z.number().int().min(1).max(ABSURD).optional() }),
  z.object({ type: z.literal("step_end"), success: z.boolean().default(true) }),
  z.object({ type: z.literal("call_start"), model: z.string().optional() }),
  z.object({ type: z.literal("tool_start"), id: z.string().min(1), name: z.string(), args: Json.default({}) }),
  z.object({
    type: z.literal("tool_end"),
    id: z.string().min(1),
    status: z.enum(["ok", "error", "denied"]).default("ok"),
    result: Json.optional(),
  }),
  /** Cumulative for the attempt. */
  z.object({
    type: z.literal("usage"),
    inputTokens: count,
    outputTokens: count,
    cacheReadTokens: count,
    cacheWriteTokens: count,
    reasoningTokens: count,
    costUsd: z.number().nonnegative().max(ABSURD).optional(),
    modelCalls: count,
  }),
  z.object({ type: z.literal("plan"), plan: z.array(PlanStep) }),
  /** `complete`: after a stop line, that the answer is whole all the same. */
  z.object({ type: z.literal("result"), output: Json.optional(), complete: z.boolean().optional() }),
  z.object({
    type: z.literal("error"),
    message: z.string(),
    code: FailureCode.optional().catch(undefined),
    retryable: z.boolean().optional(),
    /** With `rate_limited`, `overloaded` and `quota_exhausted`: when the provider may be asked again. */
    retryAfterMs: z.number().nonnegative().optional().catch(undefined),
  }),
]);
export type ProtocolLine = z.infer<typeof ProtocolLine>;
export type UsageLine = Extract<ProtocolLine, { type: "usage" }>;
/** The lines that end the turn. */
export type FinalLine = Extract<ProtocolLine, { type: "result" | "error" }>;

/** What a line of stdout is: something said, a JSON object that says nothing known, or a line of a log. */
export type ReadLine =
  | { readonly kind: "said"; readonly line: ProtocolLine }
  /** `usage`: it was to be a report of usage. */
  | { readonly kind: "unknown"; readonly usage: boolean }
  | { readonly kind: "log" };

/** Reads one line. Never throws. */
export function readLine(text: string): ReadLine {
  const value = parseObject(text.trim());
  if (value === undefined) return { kind: "log" };
  const parsed = ProtocolLine.safeParse(value);
  return parsed.success
    ? { kind: "said", line: parsed.data }
    : { kind: "unknown", usage: "type" in value && value.type === "usage" };
}

function parseObject(text: string): object | undefined {
  if (!text.startsWith("{")) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}
