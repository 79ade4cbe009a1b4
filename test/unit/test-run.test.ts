import { spawnSync } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";

let dir = "";
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "turnq-test-"));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

/** Runs scripts/test.mjs over files of its own; they use vitest's globals, since nothing is installed there. */
async function run(files: Record<string, string>): Promise<{ status: number | null; last: string | undefined }> {
  await writeFile(
    join(dir, "vitest.config.mjs"),
    "export default { test: { globals: true, include: ['*.test.js'] } };\n",
  );
  for (const [name, text] of Object.entries(files)) await writeFile(join(dir, name), text);
  const env = { ...process.env, VITEST: undefined, VITEST_WORKER_ID: undefined };
  const result = spawnSync(process.execPath, ["scripts/test.mjs", "--root", dir], { encoding: "utf8", env });
  return { status: result.status, last: result.stdout.trimEnd().split("\n").at(-1) };
}

const PASSES = "test('passes', () => {});\n";
const FAILS = "test('fails', () => { throw new Error('on purpose'); });\n";

test("the last line counts what passed and failed, and the exit code is kept", async () => {
  expect(await run({ "a.test.js": PASSES })).toEqual({ status: 0, last: "1 passed, 0 failed" });
  expect(await run({ "b.test.js": FAILS })).toEqual({ status: 1, last: "1 passed, 1 failed" });
});

test("a file that cannot be loaded counts as failed", async () => {
  const broken = await run({ "a.test.js": PASSES, "broken.test.js": "throw new Error('on purpose');\n" });
  expect(broken).toEqual({ status: 1, last: "1 passed, 1 failed" });
});

test("a file whose hook fails counts as failed, beside other failures", async () => {
  const hook = `beforeAll(() => { throw new Error('on purpose'); });\n${PASSES}`;
  expect(await run({ "a.test.js": FAILS, "hook.test.js": hook })).toEqual({ status: 1, last: "0 passed, 2 failed" });
});

test("an error outside of the tests counts as failed", async () => {
  const text = `${PASSES}setTimeout(() => { throw new Error('on purpose'); }, 0);\ntest('waits', () => new Promise((done) => setTimeout(done, 50)));\n`;
  expect(await run({ "a.test.js": text })).toEqual({ status: 1, last: "2 passed, 1 failed" });
});

test("a run that finds no tests, or cannot be set up, is not a run without failures", async () => {
  expect(await run({})).toEqual({ status: 1, last: "0 passed, 1 failed" });
  await writeFile(join(dir, "setup.js"), "");
  expect(await run({ "vitest.config.js": "throw new Error('on purpose');\n" })).toMatchObject({ status: 1 });
});
