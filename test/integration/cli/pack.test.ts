import { spawnSync } from "node:child_process";
import { readFileSync, symlinkSync } from "node:fs";
import { join, posix } from "node:path";
import { createJiti } from "jiti";
import { afterAll, beforeAll, expect, test } from "vitest";
import { PageFolder, snippetsOf, type Snippet } from "../docs/page.ts";
import { FINE, runSnippet, typeCheck } from "../docs/run-snippet.ts";
import { jsonLines, samplesOf, turnsFile } from "./cli-folder.ts";

/** Empty at first; the README's first lines install the package in it. */
let folder: PageFolder;
let tarball = "";
let paths: readonly string[] = [];

beforeAll(async () => {
  folder = await PageFolder.empty();
  const args = ["pack", "--json", "--ignore-scripts", "--pack-destination", folder.dir];
  const { status, stdout, stderr } = spawnSync("npm", args, { encoding: "utf8", env: folder.env });
  if (status !== 0) throw new Error(`npm pack ended with ${status}:\n${stderr}`);
  const [packed] = JSON.parse(stdout) as [{ filename: string; files: { path: string }[] }];
  tarball = packed.filename;
  paths = packed.files.map(({ path }) => path);
});
afterAll(async () => {
  await folder.remove();
});

test("the package holds what runs, and nothing of the tests", () => {
  expect(paths).toEqual(
    expect.arrayContaining([
      "dist/src/ledger/scripts/begin-1.lua",
      "dist/workers/turn-runner.js",
      "dist/workers/supervisor.js",
      "dist/workers/redis-keeper.js",
      "docker-compose.yml",
      "scripts/setup.mjs",
    ]),
  );
  expect(paths.filter((path) => /^(src\/cli|test|bench|node_modules|\.)/.test(path))).toEqual([]);
});

test("U19: every relative link of a page in the package leads to a file in it", () => {
  const there = (file: string): boolean =>
    paths.some((path) => path === file || path.startsWith(file.endsWith("/") ? file : `${file}/`));
  const pages = paths.filter((path) => path.endsWith(".md"));
  const links = pages.flatMap((page) => {
    const text = readFileSync(page, "utf8").replaceAll(/^```[\s\S]*?^```/gm, "");
    return [...text.matchAll(/\]\(([^)\s#]+)[^)]*\)/g)].map(([, link = ""]) => ({ page, link }));
  });
  const relative = links.filter(({ link }) => !/^https?:/.test(link));
  expect(relative.length).toBeGreaterThan(50);
  expect(relative.filter(({ page, link }) => !there(posix.join(posix.dirname(page), link)))).toEqual([]);
});

test("U19: every declaration in the package has a map that leads to a source in it", () => {
  const declarations = paths.filter((path) => path.endsWith(".d.ts"));
  expect(declarations).toEqual(expect.arrayContaining(["dist/src/index.d.ts", "dist/src/testing.d.ts"]));
  const leads = declarations.flatMap((path) => {
    const map = `${path}.map`;
    if (!paths.includes(map)) return [`${path} has no map`];
    const { sources } = JSON.parse(readFileSync(map, "utf8")) as { readonly sources: readonly string[] };
    const missing = sources.filter((source) => !paths.includes(posix.join(posix.dirname(path), source)));
    return missing.map((source) => `${path}: ${source} is not in the package`);
  });
  expect(leads).toEqual([]);
});

test("U19: the lines of the README work in an empty folder, from the install on", async () => {
  for (const snippet of snippetsOf("README.md").map(fromTarball))
    expect(await runSnippet(folder, snippet)).toEqual(FINE);
  const installed = join(folder.dir, "node_modules/turnq");
  expect(readFileSync(join(installed, "README.md"), "utf8")).toBe(readFileSync("README.md", "utf8"));
  symlinkSync(join(process.cwd(), "node_modules/@types"), join(folder.dir, "node_modules/@types"));
  expect(typeCheck(folder, snippetsOf("README.md"))).toEqual(FINE);
}, 300_000);

/** npm's registry does not have this version: what would be asked of it is the tarball. Its libraries are in npm's cache. */
function fromTarball(snippet: Snippet): Snippet {
  const install = `npm install --prefer-offline --no-audit --no-fund --ignore-scripts ./${tarball}`;
  return snippet.language === "text"
    ? { ...snippet, marks: ["not-run"] }
    : { ...snippet, text: snippet.text.replace("npm install turnq", install) };
}

const AGENT = `import { defineAgent } from "turnq";
interface Answer { readonly text: string }
export const mine = defineAgent("mine", ({ text }): string => {
  const answer: Answer = { text: text.toUpperCase() };
  return answer.text;
});
`;

const CONFIG = `import { defineConfig } from "turnq";
export default defineConfig({ agents: { mine: { type: "module", module: "./my-agent.ts" } } });
`;

test("U18: where the package is installed a typed configuration is loaded by jiti and by turnq run, with a module agent", async () => {
  await folder.write("my-agent.ts", AGENT);
  await folder.write("mine.config.ts", CONFIG);
  await folder.write(
    "mine.jsonl",
    turnsFile([
      { id: "a", input: "one", target: "ONE" },
      { id: "b", input: "two", target: "TWO" },
    ]),
  );
  const loaded = await createJiti(join(folder.dir, "x"), { fsCache: false, tryNative: true }).import(
    join(folder.dir, "mine.config.ts"),
    { default: true },
  );
  expect(loaded).toEqual({ agents: { mine: { type: "module", module: "./my-agent.ts" } } });

  const { code, said } = await folder.sh(
    "node_modules/.bin/turnq run mine.jsonl --config mine.config.ts --agent mine --expect equals --json --quiet",
  );
  expect(said).not.toContain("rror");
  expect(code).toBe(0);
  expect(samplesOf(jsonLines(said))).toEqual(["a", "b"]);
  expect(jsonLines(said).at(-1)).toMatchObject({ type: "summary", turns: 2, ok: 2, passed: 2 });
}, 300_000);
