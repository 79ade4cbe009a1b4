import { messageOf } from "../domain/error.ts";
import { Failure, failure } from "../domain/failure.ts";
import { asText } from "../domain/json.ts";
import type { TurnAnswer } from "./agent-init.ts";

/**
 * What an agent's own code answered, in a form that can be stored. TypeScript checks it no more once it runs, and an odd
 * value must not cost a second run: it is text, or it is left out. Never throws.
 */
export function cleanAnswer(said: unknown): TurnAnswer {
  if (typeof said !== "object" || said === null) return {};
  try {
    const { output, messages, record, failure: reason } = said as { readonly [K in keyof TurnAnswer]: unknown };
    return {
      ...(output === undefined ? {} : { output: asText(output) }),
      ...(reason === undefined || reason === null ? {} : { failure: cleanFailure(reason) }),
      // Both are checked where they are read.
      messages: messages as TurnAnswer["messages"],
      record: record as TurnAnswer["record"],
    };
  } catch (thrown) {
    return { output: `[unreadable: ${messageOf(thrown)}]` };
  }
}

/** Whoever gives something as a failure has failed, whatever it is. */
function cleanFailure(said: unknown): Failure {
  try {
    const { data } = Failure.safeParse(said);
    if (data !== undefined) {
      const { code, message, retryable, retryAt, cause } = data;
      return failure(code, message, { retryable, retryAt, ...(cause === undefined ? {} : { cause: cause.message }) });
    }
  } catch {
    // a value that cannot be read
  }
  return failure("agent_error", messageOf(said));
}
