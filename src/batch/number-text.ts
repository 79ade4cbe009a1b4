const NUMBER = new RegExp(
  [
    /[-+−]?\p{Sc}?[-+−]?/u, // a sign before or behind a currency sign
    /(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|(?<![\d.])\.\d+)/u, // 1,234.5 or 1234.5 or .5
    /(?:[eE][-+]?\d+)?/u,
  ]
    .map((part) => part.source)
    .join(""),
  "gu",
);
// What a number can be written with. Longer runs are no numbers, and the search stays short.
const PART_OF_NUMBER = /[\d.,eE+\-−\p{Sc}]/u;
const LONGEST = 400;

/**
 * The last number of a text, as plain decimal text (`-1234.5`, `2e5`); undefined when there is none.
 * Commas between thousands, currency signs and a closing full stop are ignored, as is a percent
 * sign: 50 and 50% are one number. A minus counts unless it stands right behind a letter, a digit
 * or a closing bracket (`10-12` ends in 12). The decimal sign is the full stop.
 */
export function lastNumber(text: string): string | undefined {
  let end = text.length;
  while (end > 0 && !isDigit(text, end - 1)) end -= 1;
  if (end === 0) return undefined;
  let start = end - 1;
  while (start > 0 && end - start < LONGEST && PART_OF_NUMBER.test(text[start - 1] ?? "")) start -= 1;
  const before = start === 0 ? "" : (text[start - 1] ?? "");
  const run = text.slice(start, end);
  const match = [...run.matchAll(NUMBER)].at(-1);
  if (match === undefined) return undefined;
  const ahead = match.index === 0 ? before : (run[match.index - 1] ?? "");
  return plainDecimal(match[0], /[\p{L}\p{N}_)\]]/u.test(ahead));
}

function isDigit(text: string, index: number): boolean {
  const code = text.charCodeAt(index);
  return code >= 48 && code <= 57;
}

function plainDecimal(token: string, signIsOperator: boolean): string {
  const digits = token.replace(/[,\p{Sc}]/gu, "").replace("−", "-");
  const unsigned = digits.replace(/^[-+]+/, "");
  return !signIsOperator && /^[-+]*-/.test(digits) ? `-${unsigned}` : unsigned;
}

/** True when two plain decimal texts are the same number: exact to the last digit, also beyond 2^53. */
export function sameNumber(a: string, b: string): boolean {
  const scientific = /[eE]/.test(a) || /[eE]/.test(b);
  if (scientific && Number.isFinite(Number(a))) return Number(a) === Number(b);
  return canonical(a) === canonical(b);
}

function canonical(decimal: string): string {
  const [found, sign = "", whole = "", fraction = ""] = /^(-?)(\d*)\.?(\d*)$/.exec(decimal) ?? [];
  if (found === undefined) return decimal;
  const significant = `${whole.replace(/^0+/, "")}.${fraction.replace(/0+$/, "")}`;
  return significant === "." ? "0" : `${sign}${significant}`;
}
