import { readdirSync, readFileSync } from "node:fs";
import { isBuiltin } from "node:module";
import { basename, dirname, join, posix } from "node:path";
import { expect, test } from "vitest";

/** What the files of one room may import. A room is a folder of `src`, a file right in `src`, or `workers`. */
interface Row {
  /** Other rooms. */
  readonly rooms: readonly string[];
  /** npm packages; Node's own modules are free, but for domain. */
  readonly packages: readonly string[];
}

/** The composition roots: they know every room. */
const EVERY = ["*"];

const TABLE: Readonly<Record<string, Row>> = {
  "src/domain": { rooms: [], packages: ["zod"] },
  // What people give, held against a schema: what is wrong with it, in words, with the nearest that is known.
  "src/parse": { rooms: ["src/domain"], packages: ["fastest-levenshtein", "zod"] },
  "src/telemetry": { rooms: ["src/domain"], packages: ["pino", "pino-pretty", "zod"] },
  "src/agent": { rooms: ["src/domain", "src/telemetry"], packages: ["zod"] },
  "src/process": { rooms: ["src/domain"], packages: ["zod"] },
  "src/agents": {
    rooms: ["src/agent", "src/domain", "src/parse", "src/process"],
    packages: ["@ai-sdk/anthropic", "@ai-sdk/openai-compatible", "ai", "jiti", "undici", "zod"],
  },
  "src/pause": { rooms: [], packages: [] },
  "src/ledger": { rooms: ["src/domain", "src/pause"], packages: ["ioredis", "zod"] },
  "src/queue": {
    rooms: ["src/agent", "src/domain", "src/ledger", "src/pause", "src/telemetry"],
    packages: ["bullmq", "ioredis", "uuid", "zod"],
  },
  "src/batch": {
    rooms: ["src/domain", "src/parse"],
    packages: ["csv-parse", "csv-stringify", "re2js", "zod"],
  },
  "src/session": { rooms: ["src/domain"], packages: ["zod"] },
  "src/redis": { rooms: ["src/domain"], packages: ["ioredis", "zod"] },
  "src/simulator": {
    rooms: ["src/domain", "src/parse", "src/process"],
    packages: ["@hono/node-server", "hono", "zod"],
  },
  "src/http": { rooms: ["src/domain", "src/telemetry"], packages: ["zod"] },
  "src/cli": {
    rooms: EVERY,
    packages: ["cli-table3", "commander", "fastest-levenshtein", "log-update", "picocolors", "pretty-ms", "zod"],
  },
  // The schemas of the adapters' own config entries stand with the adapters.
  "src/config.ts": {
    rooms: ["src/agents", "src/domain", "src/parse", "src/simulator"],
    packages: ["jiti", "lilconfig", "zod"],
  },
  // Types only, and so free for every configuration that imports it.
  "src/define-config.ts": { rooms: ["src/config.ts"], packages: [] },
  "src/app.ts": { rooms: EVERY, packages: ["ioredis", "zod"] },
  "src/testing.ts": { rooms: EVERY, packages: ["vitest"] },
  // The public handles: what app.ts puts together, as the library shows it.
  "src/turnq.ts": {
    rooms: [
      "src/batch",
      "src/batch-handle.ts",
      "src/domain",
      "src/ledger",
      "src/parse",
      "src/queue",
      "src/redis",
      "src/worker-handle.ts",
    ],
    packages: ["ioredis"],
  },
  "src/batch-handle.ts": { rooms: ["src/batch", "src/domain", "src/ledger", "src/queue"], packages: [] },
  "src/worker-handle.ts": { rooms: ["src/domain", "src/queue"], packages: ["ioredis"] },
  "src/index.ts": {
    rooms: [
      "src/agent",
      "src/batch",
      "src/batch-handle.ts",
      "src/config.ts",
      "src/define-config.ts",
      "src/domain",
      "src/ledger",
      "src/queue",
      "src/redis",
      "src/telemetry",
      "src/turnq.ts",
      "src/worker-handle.ts",
    ],
    packages: [],
  },
  workers: {
    rooms: [
      "src/agent",
      "src/agents",
      "src/config.ts",
      "src/domain",
      "src/process",
      "src/redis",
      "src/simulator",
      "src/telemetry",
    ],
    packages: ["jiti", "zod"],
  },
};

/** Rooms that nothing but a composition root (and themselves) may import, whatever a row says. */
const ROOFS = ["src/http", "src/cli", "src/app.ts", "src/testing.ts"];
const MAY_IMPORT_ROOFS: Readonly<Record<string, readonly string[]>> = {
  "src/index.ts": ["src/app.ts"],
  "src/cli": ["src/app.ts", "src/http"],
  "src/app.ts": ["src/http"],
  "src/testing.ts": ["src/app.ts"],
  // Types only: the handle is made of what the root composed.
  "src/turnq.ts": ["src/app.ts"],
};

/** The last two are entry points: one hands it on as an argument, one puts the mark of its turn there. */
const READS_ENVIRONMENT = ["src/config.ts", "src/cli/main.ts", "workers/turn-runner.ts"];
const LINES_MAX = 400;
const NAMELESS = /^(utils?|helpers?|common|misc|types|interfaces|constants)(\.\w+)?$/i;

interface SourceFile {
  /** From the project's folder, with `/`. */
  readonly path: string;
  readonly text: string;
}

function roomOf(path: string): string {
  const [top = "", second = ""] = path.split("/");
  return top === "src" ? `src/${second}` : top;
}

function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/(^|[\s;{}(,])\/\/.*$/gm, "$1");
}

function importsOf(text: string): string[] {
  const code = withoutComments(text);
  const statements = code.matchAll(/^\s*(?:import|export)\b(?:[^;"'`]*?\bfrom)?\s*["']([^"']+)["']/gm);
  const calls = code.matchAll(/\b(?:import|require)\s*\(\s*["'`]([^"'`]+)["'`]/g);
  return [...statements, ...calls].map((match) => match[1] ?? "");
}

function packageOf(specifier: string): string {
  return specifier.split("/", specifier.startsWith("@") ? 2 : 1).join("/");
}

function importFaults(file: SourceFile): string[] {
  const room = roomOf(file.path);
  const row = TABLE[room];
  if (row === undefined) return [`${file.path}: ${room} has no row in the table of ${basename(import.meta.filename)}`];
  const faults: string[] = [];
  for (const specifier of importsOf(file.text)) {
    const fault = specifier.startsWith(".") ? roomFault(file.path, specifier, row) : packageFault(room, specifier, row);
    if (fault !== undefined) faults.push(`${file.path}: ${fault}`);
  }
  return faults;
}

function roomFault(path: string, specifier: string, row: Row): string | undefined {
  const from = roomOf(path);
  const target = posix.normalize(posix.join(dirname(path), specifier));
  const to = roomOf(target);
  if (from === to) return adapterFault(path, target);
  if (ROOFS.includes(to))
    return (MAY_IMPORT_ROOFS[from] ?? []).includes(to) ? undefined : `nothing here may import ${to}`;
  if (row.rooms === EVERY || row.rooms.includes(to)) return undefined;
  return `${from} may not import ${to} (${specifier})`;
}

/** One folder per adapter, and they never import each other. */
function adapterFault(from: string, to: string): string | undefined {
  const [room, adapter] = [from.split("/").slice(0, 2).join("/"), from.split("/")[2]];
  if (room !== "src/agents" || from.split("/").length < 4) return undefined;
  const other = to.split("/")[2];
  return other === adapter || to.split("/").length < 4 ? undefined : `the adapter ${adapter} may not import ${other}`;
}

function packageFault(room: string, specifier: string, row: Row): string | undefined {
  if (isBuiltin(specifier)) {
    // Pure: no files, processes or clocks. Hashing and bytes are pure.
    const impure = room === "src/domain" && !["node:crypto", "node:buffer"].includes(specifier);
    return impure ? `domain may not import ${specifier}` : undefined;
  }
  return row.packages.includes(packageOf(specifier)) ? undefined : `${room} may not import ${packageOf(specifier)}`;
}

function otherFaults(file: SourceFile): string[] {
  const faults: string[] = [];
  const lines = file.text.split("\n").length - (file.text.endsWith("\n") ? 1 : 0);
  if (lines > LINES_MAX) faults.push(`${file.path}: ${lines} lines, at most ${LINES_MAX}`);
  for (const part of file.path.split("/")) {
    if (NAMELESS.test(part)) faults.push(`${file.path}: ${part} names no thing`);
  }
  const reads =
    /\bprocess\s*\.\s*env\b|\bprocess\s*\[\s*["']env|\{[^}]*\benv\b[^}]*\}\s*=\s*process\b|import\s*\{[^}]*\benv\b[^}]*\}\s*from\s*["'](node:)?process/;
  if (reads.test(withoutComments(file.text)) && !READS_ENVIRONMENT.includes(file.path)) {
    faults.push(`${file.path}: only ${READS_ENVIRONMENT.join(" and ")} may read process.env`);
  }
  return faults;
}

function faultsOf(file: SourceFile): string[] {
  return [...importFaults(file), ...otherFaults(file)];
}

function sources(folder: string): SourceFile[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.[cm]?tsx?$/.test(entry.name))
    .map((entry) => {
      const path = join(entry.parentPath, entry.name).replaceAll("\\", "/");
      return { path, text: readFileSync(path, "utf8") };
    });
}

const files = [...sources("src"), ...sources("workers")];

test("every file keeps to its room", () => {
  expect(files.flatMap(faultsOf)).toEqual([]);
});

test("every import of a file of ours is to a file that is there", () => {
  const paths = new Set(files.map((file) => file.path));
  const missing = files.flatMap((file) =>
    importsOf(file.text)
      .filter((specifier) => specifier.startsWith("."))
      .map((specifier) => posix.normalize(posix.join(dirname(file.path), specifier)))
      .filter((path) => !paths.has(path) && !path.endsWith(".json"))
      .map((path) => `${file.path}: ${path}`),
  );
  expect(missing).toEqual([]);
});

test("Lua scripts and workers are files with names of their own too", () => {
  const lua = readdirSync("src", { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.name.endsWith(".lua"),
  );
  expect(lua.filter((entry) => NAMELESS.test(entry.name)).map((entry) => entry.name)).toEqual([]);
});

test("the table has a row for every room", () => {
  const rooms = new Set(files.map((file) => roomOf(file.path)));
  expect([...rooms].filter((room) => TABLE[room] === undefined)).toEqual([]);
});

test.each<[string, string, string, string]>([
  ["a type import", "src/domain/a.ts", 'import type { A } from "../queue/a.ts";', "may not import src/queue"],
  [
    "an import over lines",
    "src/domain/a.ts",
    'import {\n  a,\n  b,\n} from "../agent/a.ts";',
    "may not import src/agent",
  ],
  ["an export", "src/agent/a.ts", 'export { a } from "../queue/a.ts";', "may not import src/queue"],
  ["a bare import", "src/ledger/a.ts", 'import "../queue/a.ts";', "may not import src/queue"],
  ["a dynamic import", "src/batch/a.ts", 'const a = await import("../queue/a.ts");', "may not import src/queue"],
  ["a package of another room", "src/batch/a.ts", 'import { Queue } from "bullmq";', "may not import bullmq"],
  ["a part of a package", "src/redis/a.ts", 'import x from "bullmq/dist/x.js";', "may not import bullmq"],
  ["a scoped package", "src/redis/a.ts", 'import x from "@scope/name/x";', "may not import @scope/name"],
  ["the roof", "src/queue/a.ts", 'import { openTurnq } from "../app.ts";', "nothing here may import src/app.ts"],
  [
    "the command line from the app",
    "src/app.ts",
    'import { a } from "./cli/main.ts";',
    "nothing here may import src/cli",
  ],
  [
    "an adapter from another",
    "src/agents/chat/a.ts",
    'import { a } from "../command/a.ts";',
    "chat may not import command",
  ],
  [
    "files in the domain",
    "src/domain/a.ts",
    'import { readFileSync } from "node:fs";',
    "domain may not import node:fs",
  ],
  ["a new room", "src/novel/a.ts", "", "has no row"],
  ["the environment", "src/queue/a.ts", "const a = process.env.A;", "may read process.env"],
  ["the environment, taken apart", "src/queue/a.ts", "const { env } = process;", "may read process.env"],
  ["a file without a name", "src/queue/utils.ts", "", "names no thing"],
  ["a long file", "src/queue/a.ts", "const a = 1;\n".repeat(401), "401 lines"],
])("the test sees %s", (_, path, text, fault) => {
  expect(faultsOf({ path, text })).toEqual([expect.stringContaining(fault)]);
});

test.each<[string, string, string]>([
  ["comments", "src/domain/a.ts", '// import "../queue/a.ts"\n/* process.env\n import "bullmq"; */\n'],
  ["its own room", "src/agents/chat/a.ts", 'import { a } from "./b.ts";\nimport { c } from "../registry.ts";'],
  ["rooms of its row", "src/queue/a.ts", 'import { a } from "../ledger/a.ts";\nimport { Queue } from "bullmq";'],
  ["400 lines", "src/queue/a.ts", "const a = 1;\n".repeat(400)],
])("the test passes %s", (_, path, text) => {
  expect(faultsOf({ path, text })).toEqual([]);
});
