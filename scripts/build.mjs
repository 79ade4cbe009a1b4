// Compiles src and workers, copies the Lua scripts beside them, bundles the command line, and puts the result in place
// in one move.
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { bundleCommandLine, bundleProcesses } from "./bundle.mjs";
import { sourceDigest } from "./digest.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const out = join(root, "dist");
const next = join(root, `.turnq/build-${process.pid}`);
// Taken before the compiler reads: a source that is saved meanwhile makes the next run build again.
const digest = sourceDigest(root);

process.on("exit", () => rmSync(next, { recursive: true, force: true }));

const tsc = join(root, "node_modules/typescript/bin/tsc");
const compiled = spawnSync(process.execPath, [tsc, "-p", "tsconfig.build.json", "--outDir", next], {
  cwd: root,
  stdio: "inherit",
});
if (compiled.status !== 0) process.exit(compiled.status ?? 1);

for (const entry of readdirSync(join(root, "src"), { recursive: true, withFileTypes: true })) {
  if (!entry.isFile() || !entry.name.endsWith(".lua")) continue;
  const from = join(entry.parentPath, entry.name);
  const to = join(next, from.slice(root.length));
  mkdirSync(dirname(to), { recursive: true });
  copyFileSync(from, to);
}

for (const name of readdirSync(next, { recursive: true })) {
  if (name.endsWith(".d.ts.map")) leadFrom(join(next, name), join(out, name));
}

await bundleCommandLine(next);
await bundleProcesses(next);

const bin = join(next, "src/cli/main.js");
if (existsSync(bin)) chmodSync(bin, 0o755);
writeFileSync(join(next, ".digest"), digest);

const old = join(root, `.turnq/old-${process.pid}`);
if (existsSync(out)) renameSync(out, old);
renameSync(next, out);
rmSync(old, { recursive: true, force: true });

/** Has a map, which leads to sources relative to itself, lead to the same ones from where it will be. */
function leadFrom(map, place) {
  const content = JSON.parse(readFileSync(map, "utf8"));
  const sources = content.sources.map((source) => relative(dirname(place), join(dirname(map), source)));
  writeFileSync(map, JSON.stringify({ ...content, sources }));
}
