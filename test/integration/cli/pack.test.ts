import { spawnSync } from "node:child_process";
import { accessSync, constants, existsSync, realpathSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { redisBinary } from "../../redis.ts";
import { CliFolder, jsonLines, samplesOf, turnsFile } from "./cli-folder.ts";

let folder: CliFolder;
beforeAll(async () => {
  folder = await CliFolder.make();
});
afterAll(async () => {
  await folder.remove();
});

function homeIsWritable(): boolean {
  try {
    accessSync(homedir(), constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

function npm(cwd: string, args: readonly string[]): string {
  // As the set-up does for a user without a HOME.
  const cache = homeIsWritable() ? [] : ["--cache", join(process.cwd(), ".turnq/cache/npm")];
  const { status, stdout, stderr } = spawnSync("npm", [...args, ...cache], { cwd, encoding: "utf8" });
  if (status !== 0) throw new Error(`npm ${args.join(" ")} ended with ${status}:\n${stderr}`);
  return stdout;
}

const AGENT = `import { defineAgent } from "turnq";
interface Answer { readonly text: string }
export const mine = defineAgent("mine", ({ text }): string => {
  const answer: Answer = { text: text.toUpperCase() };
  return answer.text;
});
`;

test("the package, installed in an empty folder, runs turnq run with a module agent", async () => {
  const [packed] = JSON.parse(
    npm(process.cwd(), ["pack", "--json", "--ignore-scripts", "--pack-destination", folder.dir]),
  ) as [{ filename: string; files: { path: string }[] }];
  const paths = packed.files.map(({ path }) => path);
  expect(paths).toEqual(
    expect.arrayContaining([
      "dist/src/ledger/scripts/begin-1.lua",
      "dist/workers/turn-runner.js",
      "dist/workers/supervisor.js",
      "dist/workers/redis-keeper.js",
      "scripts/setup.mjs",
    ]),
  );
  expect(paths.filter((path) => /^(src|test|examples|node_modules)\//.test(path))).toEqual([]);

  await folder.write("package.json", '{ "name": "embedder", "private": true, "type": "module" }');
  npm(folder.dir, ["install", "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts", packed.filename]);
  const bin = join(folder.dir, "node_modules/.bin/turnq");
  expect(existsSync(bin)).toBe(true);

  await folder.write("my-agent.ts", AGENT);
  await folder.write("turnq.config.json", '{ "agents": { "mine": { "type": "module", "module": "./my-agent.ts" } } }');
  await folder.write(
    "tasks.jsonl",
    turnsFile([
      { id: "a", input: "one", target: "ONE" },
      { id: "b", input: "two", target: "TWO" },
    ]),
  );
  const env = { TURNQ_REDIS_SERVER: redisBinary() };
  const { code, stdout, stderr } = await folder.run(["run", "tasks.jsonl", "--expect", "equals", "--json", "--quiet"], {
    main: realpathSync(bin),
    env,
  });
  expect(stderr).not.toContain("rror");
  expect(code).toBe(0);
  expect(samplesOf(jsonLines(stdout))).toEqual(["a", "b"]);
  expect(jsonLines(stdout).at(-1)).toMatchObject({ type: "summary", turns: 2, ok: 2, passed: 2 });
}, 300_000);
