// Makes the compiled programs start fast: each with its libraries becomes a few files, of which a command loads those that
// it needs. The library's own files stay as they are compiled: whoever imports "turnq" shares ioredis with it.
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { rolldown } from "rolldown";

/** Libraries that find files of their own beside themselves. */
const APART = [/^jiti/, /^pino/];

/** The processes that are started again and again, often for a second. A runner shares its files with the modules it loads. */
const PROCESSES = ["supervisor", "redis-keeper", "simulator"];

/** @param {string} dist the folder of the compiled project */
export async function bundleCommandLine(dist) {
  await bundle(dist, "src/cli", ["main"]);
}

/** @param {string} dist the folder of the compiled project */
export async function bundleProcesses(dist) {
  await bundle(dist, "workers", PROCESSES);
}

/** Replaces the entries of a folder by bundles of them, with what they share beside them. */
async function bundle(dist, place, names) {
  const folder = join(dist, place);
  const out = join(dist, "bundled");
  const bundling = await rolldown({
    input: Object.fromEntries(names.map((name) => [name, join(folder, `${name}.js`)])),
    platform: "node",
    external: APART,
    plugins: [keepPlaces(dist, folder)],
  });
  // Names stay: errors are told apart by the names of their classes.
  const minify = { compress: false, mangle: false, codegen: { removeWhitespace: true } };
  const { output } = await bundling.write({ dir: out, format: "esm", minify });
  await bundling.close();
  writeFileSync(join(out, "LICENSES"), licencesOf(output.flatMap((chunk) => chunk.moduleIds ?? [])));
  // Of the command line nothing else is left: nothing outside of it may import it.
  if (place === "src/cli") rmSync(folder, { recursive: true });
  mkdirSync(folder, { recursive: true });
  for (const file of readdirSync(out)) renameSync(join(out, file), join(folder, file));
  rmSync(out, { recursive: true });
}

/** What our files find beside themselves they still find when their code lies in the command line's folder. */
function keepPlaces(dist, folder) {
  return {
    name: "keep-places",
    transform(code, id) {
      if (!id.startsWith(dist) || !code.includes("import.meta.url")) return undefined;
      const place = `new URL(${JSON.stringify(relative(folder, id))}, import.meta.url).href`;
      return { code: code.replaceAll("import.meta.url", place) };
    },
  };
}

/** The licences of the packages that are part of the bundle. */
function licencesOf(modules) {
  const folders = new Set(modules.map(packageFolder).filter((found) => found !== undefined));
  const texts = [...folders]
    .toSorted((one, other) => (one < other ? -1 : 1))
    .map((found) => {
      const { name, version, license } = JSON.parse(readFileSync(join(found, "package.json"), "utf8"));
      const file = readdirSync(found).find((entry) => /^licen[cs]e/i.test(entry));
      return `${name} ${version} (${license})\n\n${file === undefined ? "" : readFileSync(join(found, file), "utf8")}`;
    });
  return texts.join(`\n${"-".repeat(80)}\n`);
}

function packageFolder(id) {
  if (!id.includes("node_modules")) return undefined;
  for (let folder = dirname(id); folder !== dirname(folder); folder = dirname(folder)) {
    const file = join(folder, "package.json");
    // Some packages have a package.json in a folder of theirs that only says how to read it.
    if (existsSync(file) && JSON.parse(readFileSync(file, "utf8")).version !== undefined) return folder;
  }
  return undefined;
}
