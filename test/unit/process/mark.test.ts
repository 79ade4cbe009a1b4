import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { markText, matchesMark, parseMark } from "../../../src/process/mark.ts";

const text = fc.string({ minLength: 0, maxLength: 30 });

describe("a mark", () => {
  it("is read back as it was, whatever is in its parts", () => {
    fc.assert(
      fc.property(text, text, text, fc.nat(), text, (store, lane, turn, attempt, worker) => {
        const mark = { store, lane, turn, attempt, worker };
        expect(parseMark(markText(mark))).toEqual(mark);
        expect(markText(mark).split("/")).toHaveLength(5);
      }),
    );
  });

  it("never throws on another text", () => {
    for (const other of ["", "a/b", "a/b/c/d/e", "a/b/c/-1/e", "%/b/c/1/e", "a/b/c/1/e/f"])
      expect(parseMark(other)).toBeUndefined();
    fc.assert(fc.property(fc.string(), (other) => parseMark(other) === undefined || other.split("/").length === 5));
  });

  it("is matched field by field, and never across stores", () => {
    const mark = markText({ store: "s", lane: "a/b", turn: "t:1", attempt: 2, worker: "w" });
    expect(matchesMark({ store: "s" }, mark)).toBe(true);
    expect(matchesMark({ store: "s", lane: "a/b", turn: "t:1", attempt: 2, worker: "w" }, mark)).toBe(true);
    for (const other of [
      { store: "x" },
      { store: "s", lane: "a" },
      { store: "s", turn: "t" },
      { store: "s", attempt: 1 },
      { store: "s", worker: "v" },
    ]) {
      expect(matchesMark(other, mark)).toBe(false);
    }
    expect(matchesMark({ store: "s" }, "garbage")).toBe(false);
  });
});
