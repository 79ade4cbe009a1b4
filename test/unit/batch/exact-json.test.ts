import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { WrittenNumber, parseExactly, plainNumbers, writtenText } from "../../../src/batch/exact-json.ts";
import type { Problem } from "../../../src/parse/problem.ts";

describe("parseExactly", () => {
  test("A29 a whole number beyond 2^53 keeps its digits", () => {
    expect(parseExactly('{"id":9007199254740993,"list":[-12345678901234567890]}')).toEqual({
      id: new WrittenNumber("9007199254740993"),
      list: [new WrittenNumber("-12345678901234567890")],
    });
    expect(parseExactly("1e999")).toEqual(new WrittenNumber("1e999"));
  });

  test("A29 numbers that lose nothing stay numbers, and texts of digits stay texts", () => {
    const text =
      '{"a":9007199254740992,"b":1e21,"c":0.1,"d":"9007199254740993 \\" 1e999","e":[1.0,-0],"f":1234567890123456}';
    expect(parseExactly(text)).toEqual(JSON.parse(text));
  });

  test("with `all` every number is as it was written", () => {
    expect(parseExactly('{"id":1.0,"s":"1.0","n":[-0,1E+3]}', true)).toEqual({
      id: new WrittenNumber("1.0"),
      s: "1.0",
      n: [new WrittenNumber("-0"), new WrittenNumber("1E+3")],
    });
  });

  test("is JSON.parse for everything else", () => {
    expect(() => parseExactly('{"a":12345678901234567890')).toThrow(SyntaxError);
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = JSON.stringify(value);
        expect(writtenText(parseExactly(text, true))).toEqual(numbersAsText(JSON.parse(text)));
        expect(plainNumbers(parseExactly(text, true), [], [])).toEqual(JSON.parse(text));
      }),
    );
  });

  test("D26 a prototype key stays a plain field", () => {
    const text = '{"__proto__":{"n":9007199254740993},"x":1}';
    expect(JSON.stringify(writtenText(parseExactly(text)))).toBe('{"__proto__":{"n":"9007199254740993"},"x":1}');
  });

  test("a text that is nested without end does not exhaust the stack", () => {
    const deep = `${"[".repeat(100_000)}12345678901234567890${"]".repeat(100_000)}`;
    expect(() => plainNumbers(parseExactly(deep), [], [])).not.toThrow();
  });
});

test("A29 a number that cannot be kept is a problem of its field", () => {
  const problems: Problem[] = [];
  const value = parseExactly('{"n":[1,{"deep":9007199254740993}]}');
  plainNumbers(value, ["options"], problems);
  expect(problems).toEqual([
    {
      field: "options.n[1].deep",
      message: "the number 9007199254740993 cannot be kept exactly; write it as text, in quotes",
    },
  ]);
});

function numbersAsText(value: unknown): unknown {
  if (typeof value === "number") return JSON.stringify(value);
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(numbersAsText);
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, numbersAsText(item)]));
}
