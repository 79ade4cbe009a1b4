import { isTurnqError, TurnqError } from "../domain/error.ts";

/** What ended a stream in its middle, with what is stored of it: turns are stored in order within their lane. */
export function withStored(error: unknown, stored: number): unknown {
  if (!isTurnqError(error)) return error;
  const { code, what, where, hint, details } = error;
  // Of the chunk whose answer did not come, or in which an id is taken, there may be more.
  const doubtful = code === "redis_unreachable" || code === "id_conflict";
  const rest = doubtful ? "the next few may be" : "nothing after them is";
  const again = code === "redis_unreachable" || code === "redis_refused";
  return new TurnqError(code, `${what}; ${stored} turns are stored, ${rest}`, {
    cause: error,
    where,
    hint: again ? "Submitting the same again completes it without duplicates." : hint,
    details: { ...details, stored },
  });
}
