import { randomUUID } from "node:crypto";
import { fieldName } from "../parse/problem.ts";
import type { Problem } from "../parse/problem.ts";

/**
 * A number of the text that a JavaScript number cannot hold: 9007199254740993 would become …992,
 * 1e999 infinity. It stands in the parsed value until somebody keeps its digits as text or refuses it.
 */
export class WrittenNumber {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

// Two numbers that are the same may be written in many ways; only these shapes can lose something.
const SUSPICIOUS = /\d{16}|[eE][+-]?\d{2}/;
// No text of a file can be made to hold this.
const MARK = `\u0000${randomUUID()}:`;

/** False when {@link parseExactly} gives what JSON.parse gives. */
export function mayLoseDigits(text: string): boolean {
  return SUSPICIOUS.test(text);
}

/**
 * JSON.parse that loses no digits of whole numbers: those that would change, and with `all` every
 * number, become a {@link WrittenNumber}. (Fractions are rounded to the nearest double, as
 * everywhere.) Throws SyntaxError as JSON.parse does.
 */
export function parseExactly(text: string, all = false): unknown {
  const plain: unknown = JSON.parse(text);
  if (!all && !mayLoseDigits(text)) return plain;
  const marked = markNumbers(text, all ? () => true : losesDigits);
  return marked === text ? plain : unmark(JSON.parse(marked));
}

function losesDigits(token: string): boolean {
  const value = Number(token);
  if (!Number.isFinite(value)) return true;
  return /^-?\d+$/.test(token) && !Number.isSafeInteger(value) && BigInt(token) !== BigInt(value);
}

/** The text with each number for which `pick` holds turned into a marked string. `text` is valid JSON. */
function markNumbers(text: string, pick: (token: string) => boolean): string {
  const number = /-?\d[\d.eE+-]*/y;
  let out = "";
  let copied = 0;
  for (let at = 0; at < text.length; at += 1) {
    const char = text[at] ?? "";
    if (char === '"') {
      at = endOfString(text, at);
    } else if (char === "-" || (char >= "0" && char <= "9")) {
      number.lastIndex = at;
      const token = number.exec(text)?.[0] ?? char;
      if (pick(token)) {
        out += `${text.slice(copied, at)}${JSON.stringify(MARK + token)}`;
        copied = at + token.length;
      }
      at += token.length - 1;
    }
  }
  return copied === 0 ? text : out + text.slice(copied);
}

function endOfString(text: string, start: number): number {
  let at = start + 1;
  while (text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
  return at;
}

function unmark(value: unknown): unknown {
  return mapTree(value, (leaf) =>
    typeof leaf === "string" && leaf.startsWith(MARK) ? new WrittenNumber(leaf.slice(MARK.length)) : leaf,
  );
}

/** Written numbers as plain ones again where that loses nothing; the others are problems of their field. */
export function plainNumbers(value: unknown, path: readonly PropertyKey[], problems: Problem[]): unknown {
  return mapTree(
    value,
    (leaf, at) => {
      if (!(leaf instanceof WrittenNumber)) return leaf;
      if (losesDigits(leaf.text)) {
        const message = `the number ${leaf.text.slice(0, 60)} cannot be kept exactly; write it as text, in quotes`;
        problems.push({ field: fieldName(at), message });
      }
      return Number(leaf.text);
    },
    path,
  );
}

/** Written numbers as text, digit by digit. */
export function writtenText(value: unknown): unknown {
  return mapTree(value, (leaf) => (leaf instanceof WrittenNumber ? leaf.text : leaf));
}

type Leaf = (leaf: unknown, path: readonly PropertyKey[]) => unknown;

const MAX_DEPTH = 100;

function mapTree(value: unknown, leaf: Leaf, path: readonly PropertyKey[] = []): unknown {
  // Deeper values are refused later by the shape of a request; here they must not exhaust the stack.
  if (path.length > MAX_DEPTH) return null;
  if (typeof value !== "object" || value === null || value instanceof WrittenNumber) return leaf(value, path);
  if (Array.isArray(value)) return value.map((item, index) => mapTree(item, leaf, [...path, index]));
  // `fromEntries` defines fields, so that "__proto__" stays an ordinary key.
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, mapTree(item, leaf, [...path, key])]));
}
