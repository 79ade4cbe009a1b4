import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const ID = /\b[ABCD]\d\d\b/g;

/** What each test file names in the names of its tests, or says that it shows. */
const named = readdirSync("test", { recursive: true, encoding: "utf8" })
  .filter((file) => file.endsWith(".test.ts") && file !== join("unit", "cases.test.ts"))
  .flatMap((file) => [...new Set(readFileSync(join("test", file), "utf8").match(ID))].map((id) => `${id} ${file}`));

const page = readFileSync("docs/cases.md", "utf8");
const decision = readFileSync("docs/decisions/0011-cases.md", "utf8");
const rows = [...page.matchAll(/^\| ([ABCD]\d\d) +\| (.+?) +\| (.+?) *\|$/gm)].map(([, id = "", , shown = ""]) => ({
  id,
  files: [...shown.matchAll(/`(.+?)`/g)].map(([, file = ""]) => file),
}));

test("docs/cases.md has each case once", () => {
  expect(rows).toHaveLength(110);
  expect(new Set(rows.map(({ id }) => id)).size).toBe(110);
});

test("docs/cases.md names exactly the files whose tests show a case", () => {
  const listed = rows.flatMap(({ id, files }) => files.map((file) => `${id} ${file}`));
  expect(listed.toSorted()).toEqual(named.toSorted());
});

test("a case that no test shows is in the decision, and no other one", () => {
  const untested = rows.filter(({ files }) => files.length === 0).map(({ id }) => id);
  const decided = [...decision.matchAll(/^\|.*\|$/gm)]
    .flatMap(([row]) => row.split("|"))
    .flatMap((cell) => {
      const ids = cell.match(ID) ?? [];
      return /^[ABCD\d, ]+(?: and [ABCD\d]+ anew)?$/.test(cell.trim()) ? ids : [];
    });
  expect([...new Set(decided)].toSorted()).toEqual(untested.toSorted());
});
