import { existsSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";

const page = readFileSync(new URL("../../docs/guarantees.md", import.meta.url), "utf8");
const file = (path: string): URL => new URL(`../../${path}`, import.meta.url);

test("docs/guarantees.md has each of the thirteen invariants, with a test that exists", () => {
  const rows = [...page.matchAll(/^\| (\d+) \|.*\| `(test\/[^`]+)` \|$/gm)];
  expect(rows.map(([, number]) => Number(number))).toEqual(Array.from({ length: 13 }, (_, i) => i + 1));
  const named = [...page.matchAll(/`(test\/[^`]+)`/g)].map(([, path = ""]) => path);
  expect(named.filter((path) => !existsSync(file(path)))).toEqual([]);
});

test("each setting of docs/guarantees.md that is said to be checked is a check of the doctor's", () => {
  const rows = [...page.matchAll(/^\| `([^`]+)` \|.*\| (yes|no) \|$/gm)];
  expect(rows.length).toBeGreaterThan(8);
  const source = ["src/redis/doctor.ts", "src/redis/doctor-health.ts"].map((path) => readFileSync(file(path), "utf8"));
  const checked = rows.filter(([, , said]) => said === "yes").map(([, name = ""]) => name);
  expect(checked.filter((name) => !source.some((text) => text.includes(`"${name}"`)))).toEqual([]);
});
