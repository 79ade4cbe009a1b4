import { z } from "zod";
import { Json } from "./json.ts";
import { Usage } from "./usage.ts";

/** One part of a message. Other kinds than text pass through as they are. */
export const Part = z.union([
  z.strictObject({ type: z.literal("text"), text: z.string() }),
  z.looseObject({ type: z.string().refine((type) => type !== "text", "a text part holds only `type` and `text`") }),
]);
export type Part = z.infer<typeof Part>;

/** A call of a tool, as the assistant made it. */
export const ToolCallRequest = z.object({ id: z.string(), name: z.string(), args: Json });
export type ToolCallRequest = z.infer<typeof ToolCallRequest>;

/** One message of a conversation. `toolCallId` is set on role `tool`, and only there. */
export const Message = z.object({
  role: z.enum(["system", "user", "assistant", "tool"]),
  content: z.union([z.string(), z.array(Part)]),
  toolCalls: z.array(ToolCallRequest).optional(),
  toolCallId: z.string().optional(),
  usage: Usage.optional(),
});
export type Message = z.infer<typeof Message>;

/** The text of a message; parts that are not text count as nothing. */
export function textOf(content: Message["content"]): string {
  if (typeof content === "string") return content;
  return content.map((part) => (part.type === "text" && "text" in part ? String(part.text) : "")).join("");
}

/**
 * The messages that a provider accepts: a tool call without its result is taken out (with its
 * message when nothing else is in it), as is a result without its call and an empty assistant message.
 */
export function validHistory(messages: readonly Message[]): Message[] {
  const answered = new Set<string>();
  for (const message of messages) if (message.role === "tool" && message.toolCallId !== undefined) answered.add(message.toolCallId);
  const asked = new Set<string>();
  const kept: Message[] = [];
  for (const message of messages) {
    if (message.role === "assistant") {
      const calls = (message.toolCalls ?? []).filter((call) => answered.has(call.id));
      for (const call of calls) asked.add(call.id);
      if (calls.length === 0 && textOf(message.content) === "" && typeof message.content === "string") continue;
      const { toolCalls: _dropped, ...rest } = message;
      kept.push(calls.length === 0 ? rest : { ...rest, toolCalls: calls });
    } else if (message.role === "tool") {
      if (message.toolCallId !== undefined && asked.has(message.toolCallId)) kept.push(message);
    } else kept.push(message);
  }
  return kept;
}
