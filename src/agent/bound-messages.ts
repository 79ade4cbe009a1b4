import type { Message } from "../domain/message.ts";
import { CUT_NOTE, TRANSCRIPT_MAX, cutTranscript } from "../domain/text.ts";

/** What an entry costs beside its content, in UTF-16 units. */
const ENTRY_COST = 100;

/** The first entries of a list, as many as a transcript may hold. */
export function boundList<T>(entries: readonly T[], max: number = TRANSCRIPT_MAX): T[] {
  const kept: T[] = [];
  let left = max;
  for (const entry of entries) {
    left -= sizeOf(entry) + ENTRY_COST;
    if (left < 0) return kept;
    kept.push(entry);
  }
  return kept;
}

/**
 * Messages that an agent gives as a whole, as many as a transcript may hold. The one that is over is
 * cut, what comes after it is left out, and a note says so.
 */
export function boundMessages(messages: readonly Message[], max: number = TRANSCRIPT_MAX): readonly Message[] {
  let left = max;
  for (const [at, message] of messages.entries()) {
    const size = sizeOf(message) + ENTRY_COST;
    if (size <= left) left -= size;
    else return [...messages.slice(0, at), cutMessage(message, Math.max(0, left - ENTRY_COST))];
  }
  return messages;
}

function cutMessage(message: Message, room: number): Message {
  const { role, content, toolCallId } = message;
  const text = typeof content === "string" ? cutTranscript(content, room) : CUT_NOTE;
  // A call without its result is none, so the calls go; of a result the call is there.
  if (role === "tool" && toolCallId !== undefined) return { role, content: text, toolCallId };
  return { role: role === "tool" ? "assistant" : role, content: text === "" ? CUT_NOTE : text };
}

function sizeOf(value: unknown): number {
  return JSON.stringify(value)?.length ?? 0;
}
