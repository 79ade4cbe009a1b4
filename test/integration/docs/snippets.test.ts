import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { checkConfig } from "../../../src/config.ts";
import { PageFolder, snippetsOf, type Snippet } from "./page.ts";
import { FINE, runSnippet, typeCheck } from "./run-snippet.ts";

/**
 * Every fenced block of README.md and docs is run, page by page and block by block, in one folder; those of the README
 * where the package was installed, in pack.test.ts:
 *
 * - `sh` is run and must succeed, or end as `exit=N` says; with `background` it goes on meanwhile.
 * - `ts NAME`, `json NAME`, `jsonl NAME` … are written to that file; with `run` the file is run. All `ts` is type-checked.
 * - `json` without a name, or with that of the configuration, is checked as one.
 * - `text` shows what is said, and is not looked at.
 * - `sh install` installs turnq: run from a package that was made here.
 * - `sh not-run` is not run: what is to be done in a checkout of turnq, or elsewhere than on Linux. There are as many of these as are counted below.
 */
const DOCS = readdirSync("docs", { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".md"));
const PAGES = ["README.md", ...DOCS.map((name) => `docs/${name}`)].toSorted();
const NOT_RUN = 4;

const all = PAGES.flatMap(snippetsOf);

test("few snippets are not run", () => {
  expect(all.filter(({ marks }) => marks.includes("not-run")).map(({ page, line }) => `${page}:${line}`)).toHaveLength(
    NOT_RUN,
  );
});

test("every snippet has a language that is known here", () => {
  const strange = all.filter(
    ({ language }) => !["sh", "ts", "json", "jsonl", "csv", "python", "text"].includes(language),
  );
  expect(strange.map(({ page, line, language }) => `${page}:${line} ${language}`)).toEqual([]);
});

test("every link leads to a file or heading that is there", () => {
  const dead = PAGES.flatMap((page) => {
    const text = readFileSync(page, "utf8").replaceAll(/^```[\s\S]*?^```/gm, "");
    return [...text.matchAll(/\]\(([^)\s]+)\)/g)].flatMap(([, link = ""]) => {
      if (/^https?:/.test(link)) return [];
      const [path = "", heading] = link.split("#");
      const file = path === "" ? page : join(dirname(page), path);
      const there = existsSync(file) && (heading === undefined || headingsOf(file).includes(heading));
      return there ? [] : [`${page}: ${link}`];
    });
  });
  expect(dead).toEqual([]);
});

function headingsOf(file: string): string[] {
  const headings = readFileSync(file, "utf8").matchAll(/^#+ (.*)$/gm);
  return [...headings].map(([, text = ""]) =>
    text
      .toLowerCase()
      .replaceAll(/[^\w\- ]/g, "")
      .replaceAll(" ", "-"),
  );
}

test("every configuration is valid", () => {
  for (const { page, line, text } of all.filter(isConfig))
    expect(() => checkConfig(JSON.parse(text), `${page}:${line}`)).not.toThrow();
});

/** The pages with something to run: a folder with a Redis takes a second. */
const runnable = DOCS.flatMap((name) => {
  const page = `docs/${name}`;
  const snippets = all.filter((snippet) => snippet.page === page && snippet.language !== "text");
  return snippets.every(isConfig) ? [] : [[page, snippets] as const];
});

test.each(runnable)(
  "the snippets of %s run as they stand there",
  async (_page, snippets) => {
    const folder = await PageFolder.make();
    try {
      for (const snippet of snippets) expect(await runSnippet(folder, snippet)).toEqual(FINE);
      expect(typeCheck(folder, snippets)).toEqual(FINE);
    } finally {
      await folder.remove();
    }
  },
  300_000,
);

function isConfig({ language, marks: [name] }: Snippet): boolean {
  return language === "json" && (name === undefined || name === "turnq.config.json");
}
