import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { clearAway, processesOf } from "../leftovers.ts";

test("what a run leaves in its folder is named, ended and removed: a process by its folder, arguments or environment, and files", async () => {
  const folder = mkdtempSync(join(tmpdir(), "left-"));
  writeFileSync(join(folder, "forgotten.txt"), "");
  // The shell between them stands for a worker of the run: its children are no children of this process.
  const code = `
    const { spawn } = require("node:child_process");
    const run = (args, options) => spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)", ...args], { detached: true, stdio: "ignore", ...options });
    const all = [run([], { cwd: ${JSON.stringify(folder)} }), run([${JSON.stringify(folder)}], {}), run([], { env: { X: ${JSON.stringify(folder)} } })];
    process.stdout.write(all.map(({ pid }) => pid).join(" "));
    for (const one of all) one.unref();
  `;
  const parent = spawn(process.execPath, ["-e", code], { stdio: ["ignore", "pipe", "inherit"] });
  const [said] = (await once(parent.stdout, "data")) as [Buffer];
  await once(parent, "close");
  const pids = String(said).split(" ").map(Number);
  expect(processesOf(folder).map(({ pid }) => pid)).toEqual(expect.arrayContaining(pids));
  const left = await clearAway(folder, 0);
  for (const pid of pids) expect(left).toContainEqual(expect.stringContaining(`process ${pid}: `));
  expect(left).toContain("in the temporary folder: forgotten.txt");
  await expect.poll(() => processesOf(folder), { timeout: 10_000 }).toEqual([]);
});
