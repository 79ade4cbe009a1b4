import { spawnSync } from "node:child_process";
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

test("examples/programs: both agents do the tasks, one of them with crashes", async () => {
  const agents = ["--config", resolve("examples/programs/turnq.config.json"), "--agent", "tools", "--agent", "shaky"];
  const how = ["--expect", "equals", "--limit", "15", "--concurrency", "4", "--batch", "programs", "--json", "--quiet"];
  const { code, stdout } = await folder.run(["run", resolve("examples/programs/tasks.jsonl"), ...agents, ...how]);
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
  const config = resolve("examples/module/turnq.config.json");
  const args = ["run", "-", "--config", config, "--json", "--quiet"];
  const { code, stdout } = await folder.run(args, { input: '{"input": "hello"}\n' });
  expect(code).toBe(0);
  expect(jsonLines(stdout).at(-1)).toMatchObject({ ok: 1, failed: 0 });
});
