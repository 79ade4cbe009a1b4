import { isTurnqError, TurnqError } from "../domain/error.ts";

/** A fault of Redis in the middle of a stream, with what is stored of it: turns are stored in order within their lane. */
export function withStored(error: unknown, stored: number): unknown {
  if (!isTurnqError(error, "redis_unreachable") && !isTurnqError(error, "redis_refused")) return error;
  const rest = error.code === "redis_refused" ? "nothing after them is" : "the next few may be";
  return new TurnqError(error.code, `${error.message} ${stored} turns are stored, ${rest}.`, {
    cause: error,
    hint: "Submitting the same again completes it without duplicates.",
    details: { ...error.details, stored },
  });
}
