import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { lastNumber, sameNumber } from "../../../src/batch/number-text.ts";

describe("the last number of a text", () => {
  test.each([
    ["She makes 9 * 2 = $<<9*2=18>>18 every day.\n#### 18", "18"],
    ["The answer is 1,234,567.", "1234567"],
    ["That is $1,234.50.", "1234.50"],
    ["-$5", "-5"],
    ["$-5", "-5"],
    ["€ 12", "12"],
    ["£3.10 in all", "3.10"],
    ["minus: −7", "-7"],
    ["x = -3", "-3"],
    ["16 - 3", "3"],
    ["10-12", "12"],
    ["GPT-4", "4"],
    ["f(x)-2", "2"],
    ["+7", "7"],
    ["50%", "50"],
    ["about 2.5e-3 seconds", "2.5e-3"],
    [".5", ".5"],
    ["so...5", "5"],
    ["1.2.3", "3"],
    ["2, 3, 5", "5"],
    ["1,2345", "2345"],
    ["1234,567", "567"],
    ["\\boxed{42}", "42"],
    ["**42**", "42"],
    ["42)", "42"],
    ["3/4", "4"],
    ["2024-02-01", "01"],
    ["the year 1999, then", "1999"],
    ["7e", "7"],
    ["5.", "5"],
  ])("%j is %s", (text, number) => {
    expect(lastNumber(text)).toBe(number);
  });

  test("a text without a digit has none", () => {
    for (const text of ["", "none", "−", "$,.", "١٢"]) expect(lastNumber(text)).toBeUndefined();
  });

  test("what is written is read, however it is written", () => {
    const forms = [
      (n: string) => `The answer is ${n}.`,
      (n: string) => `first 12, then ${n}`,
      (n: string) => `= ${n} dollars!`,
      (n: string) => `**${n}**`,
    ];
    fc.assert(
      fc.property(fc.integer(), fc.constantFrom(...forms), (number, form) => {
        for (const written of [String(number), number.toLocaleString("en-US"), `${number}.00`, `$${number}`]) {
          const read = lastNumber(form(written));
          expect(read !== undefined && sameNumber(read, String(number))).toBe(true);
        }
      }),
    );
  });

  test("a hostile text of 8 MB is read at once", () => {
    for (const piece of ["1,111", "9", "-", "$", "1e", "1.", ",", "a1"]) {
      const text = piece.repeat(Math.ceil((8 * 1024 * 1024) / piece.length));
      expect(() => lastNumber(`5 ${text}`)).not.toThrow();
    }
  });
});

describe("the same number", () => {
  test("is the same however it is written, to the last digit", () => {
    for (const [a, b] of [
      ["18", "18.0"],
      ["007", "7"],
      [".5", "0.50"],
      ["-0", "0"],
      ["2e3", "2000"],
      ["1e999", "1e999"],
    ] as const) {
      expect(sameNumber(a, b)).toBe(true);
    }
    for (const [a, b] of [
      ["18", "-18"],
      ["9007199254740993", "9007199254740992"],
      ["0.1", "0.10000000000000001"],
      ["1e999", "2e999"],
    ] as const) {
      expect(sameNumber(a, b)).toBe(false);
    }
  });
});
