/** A string without lone surrogates: each becomes U+FFFD, as UTF-8 would make it. */
export function wellFormed(text: string): string {
  return text.isWellFormed() ? text : text.toWellFormed();
}

/**
 * At most `max` UTF-16 units, the last one `…` when something was cut. Never cuts a surrogate
 * pair; cutting twice changes nothing.
 */
export function cutText(text: string, max: number): string {
  const safe = wellFormed(text);
  if (safe.length <= max) return safe;
  if (max < 1) return "";
  const head = safe.slice(0, max - 1);
  return `${head.isWellFormed() ? head : head.slice(0, -1)}…`;
}

/** At most the last `max` UTF-16 units, the first one `…` when something was cut; never half a surrogate pair. */
export function tailText(text: string, max: number): string {
  const safe = wellFormed(text);
  if (safe.length <= max) return safe;
  if (max < 1) return "";
  const tail = safe.slice(safe.length - (max - 1));
  return `…${tail.isWellFormed() ? tail : tail.slice(1)}`;
}
