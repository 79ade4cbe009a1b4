import { expect, test } from "vitest";
import { abandonedText, phaseText } from "../../../src/cli/close-text.ts";

test("a shutdown says what it kills, and names what it could not hand back", () => {
  expect(phaseText({ phase: "stopping", running: 2 })).toBeUndefined();
  expect(phaseText({ phase: "killed", running: 1 })).toBe("1 attempt did not stop: killed, to be handed back");
  expect(abandonedText({ complete: true, abandoned: 0, turns: [] })).toBeUndefined();
  expect(abandonedText({ complete: false, abandoned: 2, turns: ["a", "b"] })).toBe(
    "2 attempts did not end in time; the next worker finds them lost and goes on: a, b",
  );
  expect(abandonedText({ complete: false, abandoned: 22, turns: ["a"] })).toContain(": a, and 21 more");
});
