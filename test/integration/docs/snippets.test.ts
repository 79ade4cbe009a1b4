import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { checkConfig } from "../../../src/config.ts";
import { PageFolder, snippetsOf, type Snippet } from "./page.ts";

/**
 * Every fenced block of README.md and docs is run, page by page and block by block, in one folder:
 *
 * - `sh` is run and must succeed, or end as `exit=N` says; with `background` it goes on meanwhile.
 * - `ts NAME`, `json NAME`, `jsonl NAME` … are written to that file; with `run` the file is run. All `ts` is type-checked.
 * - `json` without a name, or with that of the configuration, is checked as one.
 * - `text` shows what is said, and is not looked at.
 * - `sh not-run` is not run: what is to be done in a checkout of turnq. There are as many of these as are counted below.
 */
const DOCS = readdirSync("docs", { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".md"));
const PAGES = ["README.md", ...DOCS.map((name) => `docs/${name}`)].toSorted();
const NOT_RUN = 3;

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
const runnable = PAGES.flatMap((page) => {
  const snippets = all.filter((snippet) => snippet.page === page && snippet.language !== "text");
  return snippets.every(isConfig) ? [] : [[page, snippets] as const];
});

test.each(runnable)(
  "the snippets of %s run as they stand there",
  async (_page, snippets) => {
    const folder = await PageFolder.make();
    try {
      for (const snippet of snippets) expect(await run(folder, snippet)).toEqual(FINE);
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

/** What became of a snippet: where it went wrong, and what it said. */
interface Fault {
  readonly where?: string;
  readonly code?: number | null;
  readonly said?: string;
}

const FINE: Fault = {};

async function run(folder: PageFolder, { page, line, language, marks, text }: Snippet): Promise<Fault> {
  const where = `${page}:${line}`;
  if (marks.includes("not-run")) return FINE;
  if (language === "sh") {
    if (marks.includes("background")) {
      await folder.background(text);
      return FINE;
    }
    const wanted = Number(/exit=(\d+)/.exec(marks.join(" "))?.[1] ?? 0);
    const { code, said } = await folder.sh(text);
    return code === wanted ? FINE : { where, code, said };
  }
  const [name, ...more] = marks;
  if (name === undefined) return language === "json" ? FINE : { where, said: "it needs the name of a file" };
  await folder.write(name, text);
  if (!more.includes("run")) return FINE;
  const { code, said } = await folder.ts(name);
  return code === 0 ? FINE : { where, code, said };
}

function typeCheck(folder: PageFolder, snippets: readonly Snippet[]): Fault {
  const files = snippets.flatMap(({ language, marks }) => (language === "ts" ? marks.slice(0, 1) : []));
  if (files.length === 0) return FINE;
  const tsc = join(dirname(createRequire(import.meta.url).resolve("typescript/package.json")), "bin/tsc");
  const how = [
    "--noEmit",
    "--strict",
    "--skipLibCheck",
    "--target",
    "es2023",
    "--module",
    "nodenext",
    "--types",
    "node",
  ];
  const { status, stdout } = spawnSync(process.execPath, [tsc, ...how, ...files], {
    cwd: folder.dir,
    encoding: "utf8",
  });
  return status === 0 ? FINE : { where: "the types of the page's programs", code: status, said: stdout };
}
