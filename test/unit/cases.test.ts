import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

/** All cases there are. Another id in a test's name is a slip of the pen. */
const CASES = [
  "A01 A02 A04 A05 A07 A08 A10 A11 A13 A14 A16 A17 A19 A20 A22 A23 A25 A26 A28 A29 A31 A32 A34 A35 A37 A38 A40 A41",
  "A43 A44 A46 A47 A49 A50 A52 A53 A55",
  "B01 B03 B04 B06 B07 B09 B10 B12 B13 B15 B16 B18 B19 B21 B22",
  "C02 C03 C05 C06 C08 C09 C11 C12 C14 C15 C17 C18 C20 C21 C23 C24 C26 C27 C29 C30 C32 C33 C35 C36 C38 C39 C41 C42",
  "C44 C45 C47 C48 C50 C51 C53 C54 C56 C57 C59 C60",
  "D01 D02 D04 D05 D07 D08 D10 D11 D13 D14 D16 D17 D19 D20 D22 D23 D25 D26",
].flatMap((ids) => ids.split(" "));

const ID = /\b[ABCD]\d\d\b/g;
const idsIn = (text: string): string[] => text.match(ID) ?? [];

/** What a test file says in quotes: the names of its tests are among it. Comments name nothing. */
function quoted(file: string): Set<string> {
  const code = readFileSync(join("test", file), "utf8")
    .replaceAll(/\/\*\*.*?\*\//gs, "")
    .replaceAll(/^\s*\/\/.*$/gm, "");
  return new Set([...code.matchAll(/"((?:[^"\\\n]|\\.)*)"/g)].map(([, text = ""]) => text));
}

const titles = new Map(
  readdirSync("test", { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".test.ts") && file !== join("unit", "cases.test.ts"))
    .map((file) => [file.replaceAll("\\", "/"), quoted(file)]),
);
const named = new Set([...titles.values()].flatMap((texts) => [...texts].flatMap(idsIn)));

const page = readFileSync("docs/cases.md", "utf8");
const decision = readFileSync("docs/decisions/0011-cases.md", "utf8");
const rows = [...page.matchAll(/^\| ([ABCD]\d\d) \| (.+?) \| (.+) \|$/gm)].map(([, id = "", fault, shown = ""]) => ({
  id,
  fault,
  shown: [...shown.matchAll(/`([^`]+)`: `([^`]+)`/g)].map(([, file = "", title = ""]) => ({ file, title })),
  elsewhere: shown.includes("decisions/0011-cases.md"),
}));

test("docs/cases.md has each case once, in order, with its fault", () => {
  expect(rows.map(({ id }) => id)).toEqual(CASES);
});

test("each test that docs/cases.md names is there, and bears the case's id in its name", () => {
  const wrong = rows.flatMap(({ id, shown }) =>
    shown.filter(({ file, title }) => !idsIn(title).includes(id) || titles.get(file)?.has(title) !== true),
  );
  expect(wrong).toEqual([]);
});

test("a case is in docs/cases.md with a test when tests name it, and else with the decision", () => {
  expect([...named].filter((id) => !CASES.includes(id))).toEqual([]);
  const shown = rows.filter((row) => row.shown.length > 0).map(({ id }) => id);
  expect(shown).toEqual(CASES.filter((id) => named.has(id)));
  expect(rows.filter(({ elsewhere }) => elsewhere).map(({ id }) => id)).toEqual(CASES.filter((id) => !named.has(id)));
});

test("a case that no test shows is in the decision, and no other one", () => {
  const decided = [...decision.matchAll(/^\|.*\|$/gm)]
    .flatMap(([row]) => row.split("|"))
    .flatMap((cell) => (/^[ABCD\d, ]+(?: and [ABCD\d]+ anew)?$/.test(cell.trim()) ? idsIn(cell) : []));
  expect([...new Set(decided)].toSorted()).toEqual(CASES.filter((id) => !named.has(id)));
});
