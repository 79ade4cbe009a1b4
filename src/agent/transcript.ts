import type { Json } from "../domain/json.ts";
import { validHistory, type Message } from "../domain/message.ts";
import type { ToolCall } from "../domain/step.ts";
import type { Input } from "../domain/turn-request.ts";
import type { Usage } from "../domain/usage.ts";

/** A tool as it was called; `messageId` is unique in the turn, which the agent's own `id` need not be. */
export interface CalledTool {
  readonly id: string;
  readonly messageId: string;
  readonly name: string;
  readonly args: Json;
  readonly startedAt: number;
  status: ToolCall["status"] | undefined;
  result: Json | undefined;
  endedAt: number | undefined;
}

/** What one assistant message is made of: text, then the tools that it called. */
export interface Segment {
  readonly step: number;
  text: string;
  readonly tools: CalledTool[];
  usage: Usage | undefined;
}

/** The text of a tool message whose tool had not ended when the attempt did. */
export const UNRESOLVED_NOTE = "[unresolved: the attempt ended before this tool call did]";

/** The turn's messages: the input, then each segment with the results of its tools, so that no call is left without one. */
export function messagesOf(input: Input, segments: readonly Segment[]): Message[] {
  const messages: Message[] = [{ role: "user", content: input }];
  for (const { text, tools, usage } of segments) {
    if (text === "" && tools.length === 0 && usage === undefined) continue;
    const calls = tools.map(({ messageId, name, args }) => ({ id: messageId, name, args }));
    messages.push({
      role: "assistant",
      content: text,
      ...(calls.length === 0 ? {} : { toolCalls: calls }),
      ...(usage === undefined ? {} : { usage }),
    });
    for (const tool of tools) messages.push({ role: "tool", content: resultText(tool), toolCallId: tool.messageId });
  }
  return messages;
}

/** Messages as someone gives them, made valid: the user's input first, no call without its result. */
export function validTurn(input: Input, given: readonly Message[]): Message[] {
  const first = given.find((message) => message.role !== "system");
  return validHistory(first?.role === "user" ? given : [{ role: "user", content: input }, ...given]);
}

/** The tool as a step shows it. */
export function toolCallOf(tool: CalledTool): ToolCall {
  return {
    id: tool.messageId,
    name: tool.name,
    args: tool.args,
    status: tool.status ?? "unresolved",
    startedAt: tool.startedAt,
    ...(tool.result === undefined ? {} : { result: tool.result }),
    ...(tool.endedAt === undefined ? {} : { endedAt: tool.endedAt }),
  };
}

function resultText(tool: CalledTool): string {
  if (tool.result === undefined) {
    if (tool.status === "ok") return "";
    return tool.status === undefined || tool.status === "unresolved" ? UNRESOLVED_NOTE : `[${tool.status}]`;
  }
  return typeof tool.result === "string" ? tool.result : JSON.stringify(tool.result);
}
