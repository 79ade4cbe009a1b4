import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { cutText, tailText, wellFormed, cleanText } from "../../../src/domain/text.ts";
import { CRASH_REASON_MAX, crashReason } from "../../../src/domain/turn-record.ts";
import { anyText } from "./arbitraries.ts";

describe("cutting text", () => {
  test("C42 never cuts a pair, never keeps half of one, stays within the limit, and twice is once", () => {
    fc.assert(
      fc.property(anyText, fc.integer({ min: 0, max: 40 }), (text, max) => {
        for (const cut of [cutText, tailText]) {
          const once = cut(text, max);
          expect(once.length).toBeLessThanOrEqual(max);
          expect(once.isWellFormed()).toBe(true);
          expect(once).not.toContain("\u0000");
          expect(cut(once, max)).toBe(once);
          if (text.length <= max) expect(once).toBe(cleanText(text));
        }
      }),
    );
  });

  test("the cut is marked at the end, the tail at its beginning", () => {
    expect(cutText("abcdef", 4)).toBe("abc…");
    expect(tailText("abcdef", 4)).toBe("…def");
    expect(cutText("ab😀cd", 4)).toBe("ab…");
    expect(tailText("ab😀cd", 4)).toBe("…cd");
    expect(cutText("abc", 3)).toBe("abc");
    expect(cutText("abc", 1)).toBe("…");
  });

  test("A28 a crash reason has at most 200 characters and one mark, also when cut again", () => {
    const once = crashReason("x".repeat(2_000_000));
    expect(once).toBe(`${"x".repeat(CRASH_REASON_MAX - 1)}…`);
    expect(crashReason(once)).toBe(once);
    expect(crashReason("short")).toBe("short");
  });

  test("C42 a lone surrogate is replaced", () => {
    expect(wellFormed("a\ud83d")).toBe("a\ufffd");
    expect(wellFormed("😀")).toBe("😀");
  });
});
