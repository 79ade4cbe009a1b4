import { isTurnqError, TurnqError } from "../domain/error.ts";

/** What ended a stream in its middle, with what is stored of it: turns are stored in order within their lane. */
export function withStored(error: unknown, stored: number): unknown {
  if (!isTurnqError(error)) return error;
  const redisFailed = error.code === "redis_unreachable" || error.code === "redis_refused";
  // Of the chunk whose answer did not come, or in which an id is taken, there may be more.
  const doubtful =
    error.code === "redis_unreachable" || error.code === "id_conflict" || error.code === "batch_conflict";
  const rest = doubtful ? ", the next few may be" : ", nothing after them is";
  const hint = redisFailed ? " Submitting the same again completes it without duplicates." : "";
  const said = error.where === undefined ? error.message : error.message.slice(`${error.where}: `.length);
  return new TurnqError(error.code, `${said} ${stored} turns are stored${rest}.${hint}`, {
    cause: error,
    where: error.where,
    details: { ...error.details, stored },
  });
}
