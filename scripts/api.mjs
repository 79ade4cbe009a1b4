// Writes what a program can see of turnq and turnq/testing to etc/*.api.md, from the built declarations.
//
//   node scripts/api.mjs           writes the reports
//   node scripts/api.mjs --check   writes nothing: exit code 1, with the difference, when a report is out of date
//
// With both, a type that a public signature mentions and that cannot be imported ends it with exit code 1.
import { CompilerState, Extractor, ExtractorConfig, ExtractorLogLevel } from "@microsoft/api-extractor";
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const etc = join(root, "etc");
const temp = join(root, `.turnq/api-${process.pid}`);
const check = process.argv.includes("--check");

/** By the report's name: what it is of, and the reports whose names its readers can import too. */
const ENTRIES = {
  turnq: { declarations: "dist/src/index.d.ts", beside: [] },
  "turnq-testing": { declarations: "dist/src/testing.d.ts", beside: ["turnq"] },
};

const ALL = Object.values(ENTRIES).map(({ declarations }) => join(root, declarations));

mkdirSync(temp, { recursive: true });
process.on("exit", () => rmSync(temp, { recursive: true, force: true }));

let compiled;
const exported = {};
for (const [name, { declarations, beside }] of Object.entries(ENTRIES)) {
  const { report, forgotten } = extract(name, join(root, declarations));
  exported[name] = exportedNames(report);
  const missing = forgotten.filter((symbol) => !beside.some((other) => exported[other].has(symbol)));
  for (const symbol of missing)
    fail(
      `${name}: ${symbol} is in a public signature and cannot be imported. Export it, or mark what mentions it @internal.`,
    );
  settle(report, join(etc, `${name}.api.md`));
}

/** The report of an entry point, and the names that its signatures mention and that it does not export. */
function extract(name, entry) {
  const forgotten = [];
  const config = ExtractorConfig.prepare({
    configObject: {
      projectFolder: root,
      mainEntryPointFilePath: entry,
      compiler: { overrideTsconfig: { extends: "./tsconfig.json", include: [], files: ALL } },
      apiReport: { enabled: true, reportFileName: name, reportFolder: temp, reportTempFolder: join(temp, "new") },
      docModel: { enabled: false },
      dtsRollup: { enabled: false },
      tsdocMetadata: { enabled: false },
      newlineKind: "lf",
      messages: {
        compilerMessageReporting: { default: { logLevel: ExtractorLogLevel.Error } },
        extractorMessageReporting: {
          default: { logLevel: ExtractorLogLevel.None },
          "ae-forgotten-export": { logLevel: ExtractorLogLevel.Warning },
        },
        tsdocMessageReporting: { default: { logLevel: ExtractorLogLevel.None } },
      },
    },
    configObjectFullPath: undefined,
    packageJsonFullPath: join(root, "package.json"),
  });
  // One reading of all declarations does for every entry point.
  compiled ??= CompilerState.create(config, { additionalEntryPoints: ALL });
  Extractor.invoke(config, {
    compilerState: compiled,
    localBuild: true,
    messageCallback(message) {
      message.handled = true;
      if (message.messageId === "ae-forgotten-export") forgotten.push(/"(.+?)"/.exec(message.text)[1]);
      else if (message.logLevel === ExtractorLogLevel.Error) fail(message.formatMessageWithLocation(root));
    },
  });
  return { report: join(temp, "new", `${name}.api.md`), forgotten: forgotten };
}

function exportedNames(report) {
  const declared = readFileSync(report, "utf8").matchAll(
    /^export (?:abstract )?(?:class|const|function|interface|type) (\w+)/gm,
  );
  return new Set([...declared].map((match) => match[1]));
}

/** Puts a report in place, or says in what the one that is there differs. */
function settle(report, file) {
  if (!check) {
    mkdirSync(etc, { recursive: true });
    copyFileSync(report, file);
    return;
  }
  const diff = spawnSync("git", ["diff", "--no-index", "--no-ext-diff", "--", file, report], { encoding: "utf8" });
  if (diff.status === 0) return;
  // The first lines name the two files.
  console.log(diff.stdout.split("\n").slice(4).join("\n") || diff.stderr || String(diff.error));
  fail(`${relative(root, file)} is not what a program sees now. Is the change meant? Then: npm run api`);
}

function fail(why) {
  console.log(why);
  process.exitCode = 1;
}
