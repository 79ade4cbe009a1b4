import { z } from "zod";
import { deepFreeze } from "./freeze.ts";
import { Message } from "./message.ts";
import { NO_USAGE, Usage } from "./usage.ts";

const base = { agent: z.string(), output: z.string(), messages: z.array(Message), usage: Usage };

/**
 * What a turn ends in: exactly six fields, `error` set if and only if `ok` is false.
 * Built only by {@link succeeded} and {@link failed}.
 */
export const Result = z.discriminatedUnion("ok", [
  z.object({ ...base, ok: z.literal(true) }),
  z.object({ ...base, ok: z.literal(false), error: z.string() }),
]);
export type Result = z.infer<typeof Result>;

/** A Result with an answer. `messages` are this turn's. */
export function succeeded(
  agent: string,
  output: string,
  usage: Usage = NO_USAGE,
  messages: readonly Message[] = [],
): Readonly<Result> {
  return deepFreeze({ agent, output, messages: structuredClone([...messages]), usage: { ...usage }, ok: true });
}

/** A Result without one; what was spent is kept. A model's error is such a Result, never a throw. */
export function failed(
  agent: string,
  error: string,
  usage: Usage = NO_USAGE,
  messages: readonly Message[] = [],
): Readonly<Result> {
  const text = error === "" ? "unknown error" : error;
  return deepFreeze({
    agent,
    output: "",
    messages: structuredClone([...messages]),
    usage: { ...usage },
    ok: false,
    error: text,
  });
}
