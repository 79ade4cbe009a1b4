import { once } from "node:events";
import { setImmediate as nextRound } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CliFolder, jsonLines, turnsFile } from "./cli-folder.ts";

const TURNS = 5;
const CHARS = 1_200_000;

let folder: CliFolder;
beforeAll(async () => {
  folder = await CliFolder.make();
  await folder.keepRedis();
  await folder.write(
    "large.jsonl",
    turnsFile(Array.from({ length: TURNS }, (_, n) => ({ input: `${n}${"x".repeat(CHARS)}` }))),
  );
  expect((await folder.run(["run", "large.jsonl", "--agent", "echo", "--batch", "large"])).code).toBe(0);
});
afterAll(async () => {
  await folder.remove();
});

test("C15: a slow reader of a pipe gets every byte", async () => {
  const command = folder.start(["results", "large"], { ownStdout: true });
  let text = "";
  for await (const chunk of command.child.stdout.setEncoding("utf8")) {
    text += String(chunk);
    for (let rounds = 0; rounds < 50; rounds += 1) await nextRound();
  }
  expect((await command.ended).code).toBe(0);
  const lines = jsonLines(text);
  expect(lines.map(({ output }) => String(output).length)).toEqual(Array.from({ length: TURNS }, () => CHARS + 1));
});

test("C15: a run whose lines are read late loses none", async () => {
  const command = folder.start(["run", "large.jsonl", "--agent", "echo", "--batch", "large", "--json"], {
    ownStdout: true,
  });
  await command.saidOnStderr(`0 new, ${TURNS} stored before`);
  let text = "";
  for await (const chunk of command.child.stdout.setEncoding("utf8")) text += String(chunk);
  expect((await command.ended).code).toBe(0);
  expect(jsonLines(text).at(-1)).toMatchObject({ type: "summary", settled: TURNS });
});

test.each([
  ["results", ["results", "large"]],
  ["run", ["run", "large.jsonl", "--agent", "echo", "--batch", "large", "--json"]],
])("%s ends quietly when its reader goes away", async (_, args) => {
  const command = folder.start(args, { ownStdout: true });
  await once(command.child.stdout, "readable");
  command.child.stdout.destroy();
  const { code, signal, stderr } = await command.ended;
  expect({ code, signal }).toEqual({ code: 0, signal: null });
  expect(stderr).not.toMatch(/error|EPIPE/);
});
