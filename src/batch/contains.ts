/** Above this product of lengths the built-in search, quadratic at its worst, could block a process for a second. */
const QUADRATIC_BUDGET = 500_000_000;

/** `text.includes(part)` whose time is bounded by the two lengths, however alike they are. */
export function contains(text: string, part: string): boolean {
  if (part.length > text.length) return false;
  if (text.length * part.length <= QUADRATIC_BUDGET) return text.includes(part);
  return searchLinear(text, part);
}

/** Knuth, Morris and Pratt: `border[i]` is the length of the longest proper prefix of `part` that ends at i. */
function searchLinear(text: string, part: string): boolean {
  const border = new Int32Array(part.length);
  for (let at = 1, matched = 0; at < part.length; at += 1) {
    matched = advance(part, border, matched, part.charCodeAt(at));
    border[at] = matched;
  }
  for (let at = 0, matched = 0; at < text.length; at += 1) {
    matched = advance(part, border, matched, text.charCodeAt(at));
    if (matched === part.length) return true;
  }
  return false;
}

function advance(part: string, border: Int32Array, matched: number, code: number): number {
  let length = matched;
  while (length > 0 && part.charCodeAt(length) !== code) length = border[length - 1] ?? 0;
  return part.charCodeAt(length) === code ? length + 1 : length;
}
