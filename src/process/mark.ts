/** The variable that every process of an attempt bears. */
export const MARK_NAME = "TURNQ_TURN";

/** Whose process it is. `store` keeps the stores of one machine apart; `attempt` 0 is a runner between turns. */
export interface Mark {
  readonly store: string;
  readonly lane: string;
  readonly turn: string;
  readonly attempt: number;
  readonly worker: string;
}

/** Which marks are meant: every field that is given must be equal. `store` always is, so that a sweep stays in its own. */
export interface MarkPattern {
  readonly store: string;
  readonly lane?: string | undefined;
  readonly turn?: string | undefined;
  readonly attempt?: number | undefined;
  readonly worker?: string | undefined;
}

/** STORE/LANE/TURN/ATTEMPT/WORKER, each part encoded: a `/` inside a lane or an id stays inside it. */
export function markText(mark: Mark): string {
  return [mark.store, mark.lane, mark.turn, String(mark.attempt), mark.worker].map(encodeURIComponent).join("/");
}

/** The mark that a turn was given, or, where it was given none (`""`), that of its place. */
export function turnMark(given: string, place: Mark): string {
  return given === "" ? markText(place) : given;
}

/** The mark in a text that {@link markText} made; undefined for any other text. */
export function parseMark(text: string): Mark | undefined {
  const parts = text.split("/");
  if (parts.length !== 5) return undefined;
  const [store, lane, turn, attempt, worker] = parts.map(decode);
  if (store === undefined || lane === undefined || turn === undefined || worker === undefined) return undefined;
  if (attempt === undefined || !/^\d{1,15}$/.test(attempt)) return undefined;
  return { store, lane, turn, attempt: Number(attempt), worker };
}

/** True when the text is a mark that the pattern means. */
export function matchesMark(pattern: MarkPattern, text: string): boolean {
  const mark = parseMark(text);
  if (mark === undefined || mark.store !== pattern.store) return false;
  return (
    (pattern.lane === undefined || mark.lane === pattern.lane) &&
    (pattern.turn === undefined || mark.turn === pattern.turn) &&
    (pattern.attempt === undefined || mark.attempt === pattern.attempt) &&
    (pattern.worker === undefined || mark.worker === pattern.worker)
  );
}

function decode(part: string): string | undefined {
  try {
    return decodeURIComponent(part);
  } catch {
    return undefined;
  }
}
