import type { ModelMessage, ToolModelMessage, UserContent } from "ai";
import { failure } from "../../domain/failure.ts";
import { textOf, validHistory, type Message, type Part } from "../../domain/message.ts";
import { cleanText } from "../../domain/text.ts";
import type { Input } from "../../domain/turn-request.ts";
import { ProviderFailure } from "./provider-failure.ts";

/** The conversation and the input, as the SDK takes them. Throws {@link ProviderFailure} for a part that cannot be sent. */
export function modelMessages(history: readonly Message[], input: Input): ModelMessage[] {
  const names = new Map<string, string>();
  const messages = validHistory(history).map((message) => modelMessage(message, names));
  return [...messages, { role: "user", content: userContent(input) }];
}

function modelMessage(message: Message, names: Map<string, string>): ModelMessage {
  const { role, content, toolCalls = [], toolCallId = "" } = message;
  switch (role) {
    case "system":
      return { role, content: cleanText(textOf(content)) };
    case "user":
      return { role, content: userContent(content) };
    case "tool":
      return toolMessage(toolCallId, names.get(toolCallId) ?? "tool", textOf(content));
    case "assistant": {
      for (const { id, name } of toolCalls) names.set(id, name);
      const text = cleanText(textOf(content));
      const calls = toolCalls.map(({ id, name, args }) => ({
        type: "tool-call" as const,
        toolCallId: id,
        toolName: name,
        // A call that was cut has no arguments; providers take an object only.
        input: typeof args === "object" && args !== null && !Array.isArray(args) ? args : {},
      }));
      return { role, content: [...(text === "" ? [] : [{ type: "text" as const, text }]), ...calls] };
    }
  }
}

function toolMessage(toolCallId: string, toolName: string, text: string): ToolModelMessage {
  const output = { type: "text" as const, value: cleanText(text) };
  return { role: "tool", content: [{ type: "tool-result", toolCallId, toolName, output }] };
}

function userContent(content: string | readonly Part[]): UserContent {
  return typeof content === "string" ? cleanText(content) : content.map(userPart);
}

type UserPart = Exclude<UserContent, string>[number];

/** Text, images and files; an image also as OpenAI writes it. */
function userPart(part: Part): UserPart {
  const { type } = part;
  const of = (name: string): unknown => Reflect.get(part, name);
  if (type === "text") return { type, text: cleanText(String(of("text"))) };
  const url = typeof of("image_url") === "string" ? of("image_url") : Reflect.get(Object(of("image_url")), "url");
  if (type === "image_url" && typeof url === "string") return { type: "image", image: url };
  const image = of("image");
  const mediaType = of("mediaType");
  const kind = typeof mediaType === "string" ? { mediaType } : {};
  if (type === "image" && typeof image === "string") return { type, image, ...kind };
  const data = of("data");
  if (type === "file" && typeof data === "string" && typeof mediaType === "string") return { type, data, mediaType };
  throw new ProviderFailure(failure("invalid_request", `a part of type "${type}" cannot be sent to a model`));
}
