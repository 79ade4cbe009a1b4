import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { machineTable } from "../../../src/process/process-table.ts";
import { isAlive, until } from "../process/machine.ts";

const MAIN = fileURLToPath(new URL("../../../bench/main.mjs", import.meta.url));

async function bench(
  ...args: string[]
): Promise<{ readonly code: number; readonly stderr: string; readonly stdout: string }> {
  const child = spawn(process.execPath, [MAIN, ...args], { stdio: ["ignore", "pipe", "pipe"] });
  const text = { stdout: "", stderr: "" };
  child.stdout.setEncoding("utf8").on("data", (part: string) => (text.stdout += part));
  child.stderr.setEncoding("utf8").on("data", (part: string) => (text.stderr += part));
  const [code] = (await once(child, "close")) as [number];
  return { code, ...text };
}

test("the benchmark runs each of its parts, small, and writes what it found", async () => {
  const folder = mkdtempSync(join(tmpdir(), "turnq-bench-test-"));
  try {
    const out = join(folder, "figures.json");
    const parts = ["process", "submit", "cancel", "in-flight"].flatMap((part) => ["--only", part]);
    const { code, stdout } = await bench("--quick", ...parts, "--out", out);
    expect(code).toBe(0);
    expect(stdout).toContain("raw BullMQ");
    const { rows } = JSON.parse(readFileSync(out, "utf8")) as {
      rows: { name: string; turnq: number; ratio?: number }[];
    };
    expect(rows.map(({ name }) => name)).toEqual([
      "no-op turns, concurrency 1",
      "no-op turns, concurrency 10",
      "no-op turns, concurrency 50",
      "no-op turns, concurrency 200",
      "submit, 1 KB",
      "bytes in Redis per waiting turn, 1 KB",
      "list 50 of 1200",
      "cancel to shouldStop, n 200",
      "memory with 300 turns in flight",
    ]);
    for (const { turnq } of rows) expect(turnq).toBeGreaterThan(0);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("broken off, it leaves no process and no folder", async () => {
  const folder = mkdtempSync(join(tmpdir(), "turnq-bench-test-"));
  try {
    const env = { ...process.env, TMPDIR: folder };
    const child = spawn(process.execPath, [MAIN, "--only", "takeover"], { env, stdio: "ignore" });
    const gone = once(child, "exit");
    const children = (): number[] =>
      machineTable
        .list()
        .filter(({ ppid }) => ppid === child.pid)
        .map(({ pid }) => pid);
    await until("the server and the first worker that is to be killed are there", () => children().length > 1);
    const started = children();
    child.kill("SIGTERM");
    await gone;
    await until("all that it started has ended", () => !started.some(isAlive));
    expect(readdirSync(folder)).toEqual([]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("a part that is none is refused, and the parts are named", async () => {
  const { code, stderr } = await bench("--only", "speed");
  expect([code, stderr]).toEqual([2, expect.stringContaining("takeover")]);
});
