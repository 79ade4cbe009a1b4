import { closest, distance } from "fastest-levenshtein";

/** The known word that `word` was probably meant to be; undefined when none is near. Case does not count. */
export function nearestOf(word: string, known: readonly string[]): string | undefined {
  // A word of megabytes is no typing error, and the distance costs its length times that of the known word.
  if (word.length > 200 || known.length === 0) return undefined;
  const lower = word.toLowerCase();
  const best = closest(
    lower,
    known.map((name) => name.toLowerCase()),
  );
  const allowed = Math.max(2, Math.floor(Math.max(lower.length, best.length) / 3));
  if (distance(lower, best) > allowed || distance(lower, best) >= Math.max(lower.length, best.length)) return undefined;
  return known.find((name) => name.toLowerCase() === best);
}

/** `(did you mean "x"?)` with a blank before it, or nothing. */
export function didYouMean(word: string, known: readonly string[]): string {
  const near = nearestOf(word, known);
  return near === undefined ? "" : ` (did you mean "${near}"?)`;
}
