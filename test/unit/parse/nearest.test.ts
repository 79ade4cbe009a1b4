import { expect, test } from "vitest";
import { nearestOf } from "../../../src/parse/nearest.ts";

test("the nearest known word, and none when nothing is near", () => {
  expect(nearestOf("inptu", ["input", "id", "target"])).toBe("input");
  expect(nearestOf("INPUT", ["input"])).toBe("input");
  expect(nearestOf("GPT4", ["gpt-4", "claude"])).toBe("gpt-4");
  expect(nearestOf("zzzzzz", ["input", "id"])).toBeUndefined();
  expect(nearestOf("x", ["id"])).toBeUndefined();
  expect(nearestOf("", ["id"])).toBeUndefined();
  expect(nearestOf("y".repeat(1_000_000), ["input"])).toBeUndefined();
  expect(nearestOf("x", [])).toBeUndefined();
});
