import { z } from "zod";
import { Json } from "./json.ts";
import { Usage } from "./usage.ts";

/** A part that is not text. A check only: nothing is copied, so that it passes through as it is, whatever its keys. */
const OtherPart = z.custom<{ type: string; [key: string]: unknown }>(
  (value) =>
    typeof value === "object" &&
    value !== null &&
    "type" in value &&
    typeof value.type === "string" &&
    value.type !== "text" &&
    Object.values(value).every((item) => item === undefined || Json.safeParse(item).success),
  "must be a part: an object of JSON values with a `type`; of type text it holds only `type` and `text`, which is text",
);

/** One part of a message. Other kinds than text pass through as they are. */
export const Part = z.union([z.strictObject({ type: z.literal("text"), text: z.string() }), OtherPart]);
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

/** The text of the last assistant message with real content, which need not be the last message; `""` when there is none. */
export function lastAssistantText(messages: readonly Message[]): string {
  const last = messages.findLast(({ role, content }) => role === "assistant" && textOf(content).trim() !== "");
  return last === undefined ? "" : textOf(last.content);
}

/**
 * The messages that a provider accepts: a tool's result stands in the run of results right behind
 * the message with its call, once. A call without such a result is taken out (with its message when
 * nothing else is in it), as is a result without such a call and an empty assistant message.
 */
export function validHistory(messages: readonly Message[]): Message[] {
  const kept: Message[] = [];
  for (let at = 0; at < messages.length; at += 1) {
    const message = messages[at];
    if (message === undefined || message.role === "tool") continue;
    if (message.role !== "assistant") {
      kept.push(message);
      continue;
    }
    const results = resultsBehind(messages, at);
    const calls = firstOfEachId(message.toolCalls ?? []).filter((call) => results.has(call.id));
    if (calls.length === 0 && isEmpty(message.content)) continue;
    const { toolCalls: _dropped, ...rest } = message;
    kept.push(calls.length === 0 ? rest : { ...rest, toolCalls: calls });
    const called = new Set(calls.map((call) => call.id));
    kept.push(...[...results].flatMap(([id, result]) => (called.has(id) ? [result] : [])));
  }
  return kept;
}

/** The tool messages right behind `at`, the first for each call. */
function resultsBehind(messages: readonly Message[], at: number): Map<string, Message> {
  const results = new Map<string, Message>();
  for (const message of messages.slice(at + 1, endOfResults(messages, at + 1))) {
    const id = message.toolCallId;
    if (id !== undefined && !results.has(id)) results.set(id, message);
  }
  return results;
}

function endOfResults(messages: readonly Message[], start: number): number {
  let end = start;
  while (messages[end]?.role === "tool") end += 1;
  return end;
}

function firstOfEachId(calls: readonly ToolCallRequest[]): ToolCallRequest[] {
  return calls.filter((call, index) => calls.findIndex((other) => other.id === call.id) === index);
}

/** Parts that are not text count as something. */
function isEmpty(content: Message["content"]): boolean {
  return textOf(content) === "" && (typeof content === "string" || content.every((part) => part.type === "text"));
}
