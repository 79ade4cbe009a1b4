import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import type { PageFolder, Snippet } from "./page.ts";

/** What became of a snippet: where it went wrong, and what it said. */
export interface Fault {
  readonly where?: string;
  readonly code?: number | null;
  readonly said?: string;
}

export const FINE: Fault = {};

/** Runs a snippet, or writes its file, as its marks say. */
export async function runSnippet(folder: PageFolder, { page, line, language, marks, text }: Snippet): Promise<Fault> {
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

/** Checks the programs of a page, once they are written. */
export function typeCheck(folder: PageFolder, snippets: readonly Snippet[]): Fault {
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
