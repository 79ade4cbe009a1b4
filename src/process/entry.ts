import { fileURLToPath } from "node:url";

/** The processes that turnq starts from its own package. */
export type EntryName = "supervisor" | "turn-runner" | "simulator";

/**
 * Where an entry point of `workers/` is, as a path. Run from the sources (in tests) it is the
 * built one: a plain Node cannot run TypeScript.
 */
export function entryPath(name: EntryName): string {
  const workers = import.meta.url.endsWith(".ts") ? "../../dist/workers" : "../../workers";
  return fileURLToPath(new URL(`${workers}/${name}.js`, import.meta.url));
}
