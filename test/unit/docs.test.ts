import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { ERROR_CODES } from "../../src/domain/error.ts";
import { FAILURE_POLICY } from "../../src/domain/failure.ts";

/** Rows of the first table of a page whose first cell is a code. */
function rowsOf(page: string): string[][] {
  const text = readFileSync(new URL(`../../docs/${page}`, import.meta.url), "utf8");
  const lines = text.split("\n").filter((line) => /^\| `\w+` \|/.test(line));
  return lines.map((line) =>
    line
      .split("|")
      .slice(1, -1)
      .map((cell) => cell.trim().replaceAll("`", "")),
  );
}

test("docs/failures.md has the rows of the failure map", () => {
  const documented = rowsOf("failures.md").map(([code, , spends, then]) => [code, { spends, then }]);
  expect(Object.fromEntries(documented)).toEqual(FAILURE_POLICY);
});

test("docs/errors.md has the codes and sentences of the error catalogue", () => {
  expect(Object.fromEntries(rowsOf("errors.md"))).toEqual(ERROR_CODES);
});
