import type { Message } from "../domain/message.ts";
import { CUT_NOTE, withCutNote } from "../domain/text.ts";
import { Allowance } from "./allowance.ts";

/** The first entries of a list, as many as a transcript may hold; the list itself when it may hold them all. */
export function boundList<T>(entries: readonly T[], max?: number): readonly T[] {
  const allowance = new Allowance(max);
  const over = entries.findIndex((entry) => !allowance.take(sizeOf(entry)));
  return over === -1 ? entries : entries.slice(0, over);
}

/**
 * Messages that an agent gives as a whole, as many as a transcript may hold; themselves when it may hold them all. The one
 * that is over is cut, what comes after it is left out, and a note says so.
 */
export function boundMessages(messages: readonly Message[], max?: number): readonly Message[] {
  const allowance = new Allowance(max);
  const over = messages.findIndex((message) => !allowance.take(charsOf(message)));
  const cut = messages[over];
  return cut === undefined ? messages : [...messages.slice(0, over), cutMessage(cut, allowance.takeRest())];
}

function charsOf({ content, toolCalls }: Message): number {
  const chars = typeof content === "string" ? content.length : sizeOf(content);
  return toolCalls === undefined ? chars : chars + sizeOf(toolCalls);
}

function cutMessage(message: Message, room: number): Message {
  const { role, content, toolCallId } = message;
  const text = typeof content === "string" && content !== "" ? withCutNote(content.slice(0, room)) : CUT_NOTE;
  // A call without its result is none, so the calls go; of a result the call is there.
  if (role === "tool" && toolCallId !== undefined) return { role, content: text, toolCallId };
  return { role: role === "tool" ? "assistant" : role, content: text };
}

function sizeOf(value: unknown): number {
  return JSON.stringify(value)?.length ?? 0;
}
