import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { EXAMPLES, linesOf, startProgram } from "./program.ts";

const config = JSON.parse(readFileSync(`${EXAMPLES}command/turnq.config.json`, "utf8")) as {
  agents: { py: { command: string[]; env: string[] }; shell: { command: string[] } };
};
// The program itself comes first on the PATH: a version manager's `python3` may take half a second to find it.
const python = spawnSync("python3", ["-c", "import sys; print(sys.executable)"], { encoding: "utf8" });
const path = `${dirname(python.stdout.trim())}:${process.env["PATH"] ?? ""}`;
const folder = mkdtempSync(join(tmpdir(), "turnq-examples-"));
afterAll(() => rmSync(folder, { recursive: true }));

const CODE = 'def add(a, b):\n    """ The sum.\n    >>> add(1, 2)\n    3\n    """\n';

type Request = Parameters<typeof startProgram>[2];
const py = (request: Request, env?: Record<string, string>) =>
  startProgram("command", config.agents.py.command, request, { PATH: path, ...env }).ended;
const shell = (input: string) => startProgram("command", config.agents.shell.command, { input }).ended;

describe.runIf(python.status === 0)("the agent in Python", () => {
  test("reads the code with a child process and says what is in it", async () => {
    const { code, stdout, stderr } = await py({ input: CODE });
    expect(stderr).toBe("");
    expect(code).toBe(0);
    expect(linesOf(stdout)).toEqual([
      { type: "text", text: "Reading the code.\n" },
      { type: "tool_start", id: "t1", name: "read_code", args: { lines: 5 } },
      { type: "tool_end", id: "t1", result: { functions: ["add(a, b)"], examples: 1, lines: 5 }, status: "ok" },
      { type: "usage", inputTokens: 11, outputTokens: 3 },
      { type: "usage", inputTokens: 11, outputTokens: 10 },
      { type: "step_end" },
      { type: "result", output: "add(a, b): 1 example in 5 lines" },
    ]);
  });

  test("says that an input is not Python, with the tool ended", async () => {
    const { code, stdout } = await py({ input: "def (" });
    const lines = linesOf(stdout);
    expect(code).toBe(0);
    expect(lines[2]).toMatchObject({ type: "tool_end", status: "error" });
    expect(lines.at(-1)).toMatchObject({ type: "error", code: "invalid_request", retryable: false });
  });

  test("appends one whole line for each start to RUN_LOG, also of many that run at once", async () => {
    const log = join(folder, "runs.jsonl");
    const turns = Array.from({ length: 12 }, (_, n) => `b:${n}:py:1`);
    await Promise.all(turns.map((turn) => py({ turn, attempt: 2, input: CODE }, { RUN_LOG: log })));
    const runs = readFileSync(log, "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { turn: string; attempt: number });
    expect(runs.map((run) => run.turn).sort()).toEqual([...turns].sort());
    expect(new Set(runs.map((run) => run.attempt))).toEqual(new Set([2]));
    expect(config.agents.py.env).toContain("RUN_LOG");
  });

  test("kills itself after the tool call when SHAKY says so, by the environment or an option", async () => {
    for (const ended of [await py({ input: CODE }, { SHAKY: "1" }), await py({ input: CODE, options: { shaky: 1 } })]) {
      expect(ended).toMatchObject({ code: null, signal: "SIGKILL" });
      expect(linesOf(ended.stdout).map((line) => line.type)).toEqual(["text", "tool_start", "tool_end", "usage"]);
    }
  });

  test("with a share between, some attempts die and the same ones again", async () => {
    const signals = () =>
      Promise.all(
        Array.from({ length: 8 }, async (_, n) => (await py({ turn: `t${n}`, input: CODE }, { SHAKY: "0.5" })).signal),
      );
    const first = await signals();
    expect(new Set(first)).toEqual(new Set([null, "SIGKILL"]));
    expect(await signals()).toEqual(first);
  });
});

describe("the agent in bash", () => {
  test("writes its answer as plain text", async () => {
    expect(await shell("one two  three")).toEqual({ code: 0, signal: null, stdout: "3 words\n", stderr: "" });
  });

  test("hands no text of the input to the shell", async () => {
    expect((await shell('$(echo x) `id` "; exit 3')).stdout).toBe("6 words\n");
  });
});
