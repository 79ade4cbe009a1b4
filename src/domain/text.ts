/** Most of what one attempt says that is kept, in UTF-16 units: what is over is cut with {@link CUT_NOTE}. */
export const TRANSCRIPT_MAX = 8 * 1024 * 1024;
/** Stands where something was left out of a transcript. */
export const CUT_NOTE = "[cut: the attempt's transcript is over its limit]";

/** A string without lone surrogates: each becomes U+FFFD, as UTF-8 would make it. */
export function wellFormed(text: string): string {
  return text.isWellFormed() ? text : text.toWellFormed();
}

/**
 * At most `max` UTF-16 units, the last one `…` when something was cut. Never cuts a surrogate
 * pair; cutting twice changes nothing.
 */
export function cutText(text: string, max: number): string {
  const safe = cleanText(text);
  if (safe.length <= max) return safe;
  if (max < 1) return "";
  const head = safe.slice(0, max - 1);
  return `${head.isWellFormed() ? head : head.slice(0, -1)}…`;
}

/** At most the last `max` UTF-16 units, the first one `…` when something was cut; never half a surrogate pair. */
export function tailText(text: string, max: number): string {
  const safe = cleanText(text);
  if (safe.length <= max) return safe;
  if (max < 1) return "";
  const tail = safe.slice(safe.length - (max - 1));
  return `…${tail.isWellFormed() ? tail : tail.slice(1)}`;
}

/** Text that JSON, Redis and providers take: no lone surrogate, no NUL. */
export function cleanText(text: string): string {
  return wellFormed(text).replaceAll("\u0000", "\ufffd");
}

/** At most the first `max` UTF-16 units, with {@link CUT_NOTE} behind them when something was cut; never half a surrogate pair. */
export function cutTranscript(text: string, max: number = TRANSCRIPT_MAX): string {
  return text.length <= max ? text : withCutNote(text.slice(0, Math.max(0, max)));
}

/** The beginning of a text, which may end in half of a surrogate pair, with {@link CUT_NOTE} behind it. */
export function withCutNote(head: string): string {
  return `${head.isWellFormed() ? head : head.slice(0, -1)}\n${CUT_NOTE}`;
}

/** A text that was cut, without the note. */
export function withoutCutNote(text: string): string {
  return text.endsWith(`\n${CUT_NOTE}`) ? text.slice(0, -CUT_NOTE.length - 1) : text;
}
