import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CliFolder, jsonLines, samplesOf, turnsFile } from "./cli-folder.ts";

const PYTHON = spawnSync("python3", ["--version"]).status === 0;

let folder: CliFolder;
beforeAll(async () => {
  folder = await CliFolder.make();
  await folder.keepRedis();
});
afterAll(async () => {
  await folder.remove();
});

/** What an npm script hands to turnq, with paths that hold in any folder. */
function argumentsOf(script: string): string[] {
  const { scripts } = JSON.parse(readFileSync("package.json", "utf8")) as { scripts: Record<string, string> };
  const [, words = ""] = /dist\/src\/cli\/main\.js (.*)$/.exec(scripts[script] ?? "") ?? [];
  return words.split(" ").map((word) => (word.startsWith("examples/") ? resolve(word) : word));
}

const IN_SHORT = ["--limit", "15", "--json", "--quiet"];

test("npm start: both simulated models answer the word problems, the one with faults too", async () => {
  const { code, stdout } = await folder.run([...argumentsOf("start"), ...IN_SHORT]);
  expect(code).toBe(0);
  const lines = jsonLines(stdout);
  expect(lines.at(-1)).toMatchObject({
    turns: 60,
    settled: 60,
    byAgent: { large: { ok: 30, failed: 0 }, small: { ok: 30, failed: 0 } },
  });
  const results = lines.filter(({ type }) => type === "result");
  // Each model's tokens are known, its price too, and what is right is decided by the target alone.
  expect(results.every(({ usage }) => Number(Reflect.get(Object(usage), "costUsd")) > 0)).toBe(true);
  expect(new Set(results.map(({ score }) => Reflect.get(Object(score), "passed")))).toEqual(new Set([true, false]));
}, 120_000);

test("npm run example:programs: both agents do the tasks, one of them with crashes", async () => {
  const { code, stdout } = await folder.run([...argumentsOf("example:programs"), ...IN_SHORT]);
  expect(code).toBe(0);
  const summary = jsonLines(stdout).at(-1);
  expect(summary).toMatchObject({
    turns: 30,
    settled: 30,
    byAgent: { tools: { ok: 15, passed: 15, crashedAttempts: 0 } },
  });
  // The shaky agent's fate is seeded: it is the same in every run.
  expect(summary?.["crashedAttempts"]).toBeGreaterThan(0);
}, 120_000);

const CODE = [1, 2, 3].map((n) => ({ task_id: `T/${n}`, prompt: `def f${n}(a, b):\n    return a\n`, more: n }));

test.skipIf(!PYTHON)("examples/command: an agent in Python", async () => {
  await folder.write("code.jsonl", turnsFile(CODE));
  const config = resolve("examples/command/turnq.config.json");
  const args = ["run", "code.jsonl", "--map", "input=prompt,id=task_id", "--agent", "py", "--config", config, "--json"];
  const { code, stdout } = await folder.run(args);
  expect(code).toBe(0);
  const lines = jsonLines(stdout);
  expect(samplesOf(lines)).toEqual(["T/1", "T/2", "T/3"]);
  expect(lines.find(({ sample }) => sample === "T/2")).toMatchObject({
    output: "f2(a, b): 0 examples in 2 lines",
    metadata: { more: 2 },
    usage: { toolCalls: 1, known: "reported" },
  });
});

test("examples/command: an agent in shell, whose stdout is the answer", async () => {
  const config = resolve("examples/command/turnq.config.json");
  const args = ["run", "-", "--agent", "shell", "--config", config, "--json", "--quiet"];
  const { code, stdout } = await folder.run(args, { input: '{"input": "one two three"}\n' });
  expect(code).toBe(0);
  expect(jsonLines(stdout)[0]).toMatchObject({ output: expect.stringMatching(/^3 words\s*$/), ok: true });
});

test("examples/module: an agent in a TypeScript module", async () => {
  const config = resolve("examples/module/turnq.config.ts");
  const args = ["run", "-", "--config", config, "--json", "--quiet"];
  const { code, stdout } = await folder.run(args, { input: '{"input": "hello"}\n' });
  expect(code).toBe(0);
  expect(jsonLines(stdout).at(-1)).toMatchObject({ ok: 1, failed: 0 });
});
