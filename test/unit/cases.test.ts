import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

const page = readFileSync("docs/cases.md", "utf8");
const rows = [...page.matchAll(/^\| ([ABCD]\d\d) +\| (.+?) *\|$/gm)].map(([, id = "", files = ""]) => ({
  id,
  files: [...files.matchAll(/`(.+?)`/g)].map(([, file = ""]) => file),
}));

test("docs/cases.md names each case once, and only test files that have it in a name", () => {
  const untested = (page.split("## No test names these yet")[1] ?? "").match(/\b[ABCD]\d\d\b/g) ?? [];
  const ids = [...rows.map(({ id }) => id), ...untested];
  expect(ids.length).toBe(110);
  expect(ids.filter((id, index) => ids.indexOf(id) !== index)).toEqual([]);
  const wrong = rows.flatMap(({ id, files }) =>
    files.filter((file) => !readFileSync(file, "utf8").includes(id)).map((file) => `${id}: ${file}`),
  );
  expect(wrong).toEqual([]);
});
