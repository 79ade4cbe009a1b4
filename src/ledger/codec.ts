import { deflateSync, inflateSync } from "node:zlib";
import { z } from "zod";
import { Message } from "../domain/message.ts";
import { StoredRequest } from "../domain/turn-request.ts";
import { TurnEvent } from "../domain/turn-event.ts";
import { TurnRecord } from "../domain/turn-record.ts";
import { TurnResult } from "../domain/turn-result.ts";
import { TurnqError, messageOf } from "../domain/error.ts";

/** Above this many bytes of JSON a stored value is compressed. */
const COMPRESS_ABOVE_BYTES = 4096;
/** First byte of a zlib stream; JSON of ours begins with `{`. */
const ZLIB = 0x78;
/** A stored value never inflates to more: a corrupt or hostile one must not fill the memory. */
const MAX_INFLATED_BYTES = 256 * 1024 * 1024;

/** A closed attempt: its record and its events, deltas merged. */
export const StoredAttempt = z.object({ v: z.literal(1), record: TurnRecord, events: z.array(TurnEvent) });
export type StoredAttempt = z.infer<typeof StoredAttempt>;

/** What one turn added to its session. */
export const StoredMessages = z.object({ v: z.literal(1), messages: z.array(Message) });
export type StoredMessages = z.infer<typeof StoredMessages>;

/** The one codec of everything that is stored as a whole. */
const SHAPES = {
  request: StoredRequest,
  attempt: StoredAttempt,
  result: TurnResult,
  messages: StoredMessages,
} as const;
export type Stored = { [K in keyof typeof SHAPES]: z.infer<(typeof SHAPES)[K]> };

/** What to store: JSON, compressed above 4 KB. A text where it can be one: a command of texts is written without copies. */
export function encode<K extends keyof Stored>(_shape: K, value: Stored[K]): string | Buffer {
  const json = JSON.stringify(value);
  // No character has more than three bytes for each of its units.
  if (json.length * 3 <= COMPRESS_ABOVE_BYTES || Buffer.byteLength(json) <= COMPRESS_ABOVE_BYTES) return json;
  return deflateSync(json, { level: 1 });
}

/** Reads what {@link encode} wrote, also by any released version; throws `corrupt`. */
export function decode<K extends keyof Stored>(shape: K, bytes: Buffer, where: string): Stored[K] {
  try {
    const json = bytes[0] === ZLIB ? inflateSync(bytes, { maxOutputLength: MAX_INFLATED_BYTES }) : bytes;
    return SHAPES[shape].parse(JSON.parse(json.toString("utf8"))) as Stored[K];
  } catch (error) {
    throw new TurnqError("corrupt", `the stored ${shape} cannot be read: ${messageOf(error).slice(0, 300)}`, {
      where,
      cause: error,
    });
  }
}
