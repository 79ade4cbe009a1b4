import { z } from "zod";

const TextPart = z.looseObject({ type: z.string(), text: z.string().optional() });
const ToolCall = z.looseObject({
  id: z.string(),
  function: z.looseObject({ name: z.string(), arguments: z.string() }),
});

const ChatMessage = z.looseObject({
  role: z.enum(["system", "developer", "user", "assistant", "tool"]),
  content: z.union([z.string(), z.array(TextPart)]).nullish(),
  tool_calls: z.array(ToolCall).optional(),
  tool_call_id: z.string().optional(),
});
export type ChatMessage = z.infer<typeof ChatMessage>;

/** A chat completion request, as far as the simulator looks at it. */
export const ChatRequest = z.looseObject({
  model: z.string(),
  messages: z.array(ChatMessage).min(1),
  stream: z.boolean().nullish(),
  stream_options: z.looseObject({ include_usage: z.boolean().optional() }).nullish(),
  tools: z.array(z.looseObject({ function: z.looseObject({ name: z.string() }) })).optional(),
  max_tokens: z.number().int().min(1).nullish(),
  max_completion_tokens: z.number().int().min(1).nullish(),
});
export type ChatRequest = z.infer<typeof ChatRequest>;

/** All text of a message, its tool calls included. */
export function messageText(message: ChatMessage): string {
  const { content, tool_calls: calls = [] } = message;
  const text = typeof content === "string" ? content : (content ?? []).map((part) => part.text ?? "").join("\n");
  return text + calls.map((call) => call.function.name + call.function.arguments).join("");
}

/** The text of the last user message: what is asked. */
export function question(request: ChatRequest): string {
  const asked = request.messages.findLast(({ role }) => role === "user");
  return asked === undefined ? "" : messageText(asked);
}

const ASKS_FOR_TOOL = /\buse the tool ([\w-]+)(?: with (\{[^\n]*\}))?/i;

/** The tool that the last user message asks for, when it was not called since. */
export function wantedTool(request: ChatRequest): { readonly name: string; readonly args: string } | undefined {
  const last = request.messages.at(-1);
  const found = ASKS_FOR_TOOL.exec(question(request));
  const name = found?.[1];
  if (last?.role !== "user" || name === undefined) return undefined;
  const known = request.tools?.some((tool) => tool.function.name === name) ?? false;
  return known ? { name, args: found?.[2] ?? "{}" } : undefined;
}

/** The system prompt: the messages before the first user message. It is what gets cached. */
export function systemPrompt(request: ChatRequest): readonly ChatMessage[] {
  const first = request.messages.findIndex(({ role }) => role !== "system" && role !== "developer");
  return request.messages.slice(0, first === -1 ? request.messages.length : first);
}
