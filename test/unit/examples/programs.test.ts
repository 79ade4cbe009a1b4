import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { EXAMPLES, forAll, isAlive, linesOf, startProgram } from "./program.ts";
import type { Ended, Line } from "./program.ts";

interface Task {
  readonly id: string;
  readonly input: string;
  readonly target: string;
  readonly metadata: { readonly kind: string };
}
interface Entry {
  readonly command: string[];
  readonly retry?: { readonly maxAttempts: number };
}

const tasks = readFileSync(`${EXAMPLES}programs/tasks.jsonl`, "utf8").trim().split("\n").map(parseTask);
const config = JSON.parse(readFileSync(`${EXAMPLES}programs/turnq.config.json`, "utf8")) as {
  agents: { tools: Entry; shaky: Entry };
};
const { fateOf } = (await import(`${EXAMPLES}programs/fate.mjs`)) as {
  fateOf(seed: string, turn: string, attempt: number): "fine" | "hang" | "kill" | "exit";
};
const SEED = config.agents.shaky.command.at(-1) ?? "";

function parseTask(line: string): Task {
  return JSON.parse(line) as Task;
}

function start(agent: "tools" | "shaky", turn: string, attempt: number, input: unknown) {
  return startProgram("programs", config.agents[agent].command, { turn, attempt, input });
}

/** The first attempt, among many turns, that meets this fate. */
function turnThat(fate: string): string {
  for (let n = 0; ; n++) if (fateOf(SEED, `b:${n}:shaky:1`, 1) === fate) return `b:${n}:shaky:1`;
}

function fineAttempt(turn: string): number {
  for (let attempt = 1; ; attempt++) if (fateOf(SEED, turn, attempt) === "fine") return attempt;
}

function types(lines: readonly Line[]): string[] {
  return lines.map((line) => line.type);
}

describe("tasks", () => {
  test("at least 60 of at least ten kinds, each with an id of its own and an answer", () => {
    expect(tasks.length).toBeGreaterThanOrEqual(60);
    expect(new Set(tasks.map((task) => task.id)).size).toBe(tasks.length);
    expect(new Set(tasks.map((task) => task.metadata.kind)).size).toBeGreaterThanOrEqual(10);
    for (const task of tasks) expect(task.target).not.toBe("");
  });
});

describe("the agent that works", () => {
  test("gives the target of every task, with every tool ended and usage reported", async () => {
    const seen = new Map<string, unknown>();
    const wanted = new Map<string, unknown>();
    await forAll(tasks, async (task) => {
      const { code, stdout, stderr } = await start("tools", `b:${task.id}:tools:1`, 1, task.input).ended;
      const lines = linesOf(stdout);
      const started = lines.filter((line) => line.type === "tool_start").map((line) => line["id"]);
      const ended = lines.filter((line) => line.type === "tool_end").map((line) => line["id"]);
      const answer = lines.at(-1)?.["output"];
      seen.set(task.id, { code, stderr, answer, ended, usedATool: ended.length > 0, last: types(lines).slice(-3) });
      const last = ["usage", "step_end", "result"];
      wanted.set(task.id, { code: 0, stderr: "", answer: task.target, ended: started, usedATool: true, last });
    });
    expect(seen).toEqual(wanted);
  });

  test("speaks the protocol line by line, with cumulative usage in its own unit, words", async () => {
    const { stdout } = await start("tools", "b:s:tools:1", 1, "sort numbers: 10, 9, 1").ended;
    expect(linesOf(stdout)).toEqual([
      { type: "text", text: "Asking sort.\n" },
      { type: "tool_start", id: "t1", name: "sort", args: { args: ["-n"], stdin: "10\n9\n1\n" } },
      { type: "tool_end", id: "t1", result: "1\n9\n10\n", status: "ok" },
      { type: "usage", inputTokens: 5, outputTokens: 2 },
      { type: "usage", inputTokens: 5, outputTokens: 5 },
      { type: "step_end" },
      { type: "result", output: "1, 9, 10" },
    ]);
  });

  test("takes an input of parts", async () => {
    const input = [
      { type: "text", text: "count words: " },
      { type: "text", text: "one two" },
    ];
    const { stdout } = await start("tools", "b:s:tools:1", 1, input).ended;
    expect(linesOf(stdout).at(-1)).toEqual({ type: "result", output: "2" });
  });

  test("answers an unknown kind of task with an error that is not worth a retry", async () => {
    const { code, stdout } = await start("tools", "b:s:tools:1", 1, "sing a song").ended;
    const message = "no kind of task begins like this: sing a song";
    expect(linesOf(stdout)).toEqual([{ type: "error", message, code: "invalid_request", retryable: false }]);
    expect(code).toBe(0);
  });

  test("reports a program that fails as a failed tool and an error", async () => {
    const { stdout } = await start("tools", "b:s:tools:1", 1, "query .a from {not json").ended;
    const lines = linesOf(stdout);
    expect(lines.find((line) => line.type === "tool_end")).toMatchObject({ id: "t1", status: "error" });
    expect(types(lines).at(-2)).toBe("usage");
    expect(lines.at(-1)).toMatchObject({ type: "error", code: "agent_error", retryable: false });
  });

  test("runs no text of a task as a command or a program", async () => {
    for (const input of ["calculate: system(1)", 'calculate: 1; print "x"', "convert $(id) to hex"]) {
      const { stdout } = await start("tools", "b:s:tools:1", 1, input).ended;
      expect(linesOf(stdout).at(-1)).toMatchObject({ type: "error", code: "invalid_request" });
    }
  });
});

describe("the shaky agent", () => {
  test("crashes in about 20 % and hangs in about 5 % of many attempts, with any seed", () => {
    for (const seed of [SEED, "1", "another"]) {
      const counts = { fine: 0, hang: 0, kill: 0, exit: 0 };
      for (let turn = 0; turn < 40_000; turn++) {
        for (let attempt = 1; attempt <= 4; attempt++) counts[fateOf(seed, `b:${turn}:shaky:1`, attempt)]++;
      }
      const percent = (count: number): number => Math.round(count / 1_600);
      const shares = [counts.kill + counts.exit, counts.hang, counts.kill].map(percent);
      expect({ seed, shares }).toEqual({ seed, shares: [20, 5, 10] });
    }
  });

  test("meets the same fate in every batch, and another one in another attempt, epoch or seed", () => {
    const draws = (seed: string, batch: string, epoch: number, attempt: number): string =>
      tasks.map((task) => fateOf(seed, `${batch}:${task.id}:shaky:${epoch}`, attempt)).join();
    const first = draws("4", "a", 1, 1);
    expect(draws("4", "another-batch", 1, 1)).toBe(first);
    expect(draws("4", "a", 1, 2)).not.toBe(first);
    expect(draws("4", "a", 2, 1)).not.toBe(first);
    expect(draws("5", "a", 1, 1)).not.toBe(first);
  });

  test("with the configured seed crashes and hangs in both ways, and yet ends every task within its attempts", () => {
    const met = new Set<string>();
    let most = 0;
    for (const task of tasks) {
      const turn = `b:${task.id}:shaky:1`;
      const needed = fineAttempt(turn);
      most = Math.max(most, needed);
      for (let attempt = 1; attempt < needed; attempt++) met.add(fateOf(SEED, turn, attempt));
    }
    expect([...met].sort()).toEqual(["exit", "hang", "kill"]);
    expect(most).toBeLessThanOrEqual(config.agents.shaky.retry?.maxAttempts ?? 0);
  });

  test("gets wrong what it is careless in, and all else right", async () => {
    const wrong: string[] = [];
    // All tasks of the kinds that it gets wrong, one of each other kind.
    const careless = new Set(["count characters", "sort numbers", "mean"]);
    const some = tasks.filter(({ id, metadata: { kind } }) => careless.has(kind) || id.endsWith("-1"));
    await forAll(some, async (task) => {
      const turn = `b:${task.id}:shaky:1`;
      const { stdout } = await start("shaky", turn, fineAttempt(turn), task.input).ended;
      if (linesOf(stdout).at(-1)?.["output"] !== task.target) wrong.push(task.id);
    });
    expect(wrong.sort()).toEqual([
      "characters-2",
      "characters-3",
      "mean-1",
      "mean-2",
      "mean-3",
      "sort-numbers-1",
      "sort-numbers-3",
    ]);
  });

  const CUT_SHORT = ["text", "tool_start", "tool_end", "usage"];
  const reaches: [string, (ended: Ended) => void][] = [
    ["kill", (ended) => expect(ended).toMatchObject({ code: null, signal: "SIGKILL", stderr: "" })],
    ["exit", (ended) => expect(ended).toMatchObject({ code: 1, signal: null, stderr: "shaky: gave up half way\n" })],
  ];
  test.each(reaches)("%s: dies after a tool call, when its usage is out (C14, C23)", async (fate, check) => {
    const ended = await start("shaky", turnThat(fate), 1, "count words: one two three").ended;
    check(ended);
    const lines = linesOf(ended.stdout);
    expect(types(lines)).toEqual(CUT_SHORT);
    expect(lines.at(-1)).toEqual({ type: "usage", inputTokens: 5, outputTokens: 2 });
  });

  test("hang: leaves a child in a session of its own and ignores SIGTERM; only a kill ends it (C02, C03)", async () => {
    const running = start("shaky", turnThat("hang"), 1, "count words: one two three");
    const line = await running.lineWhere(({ type, id }) => type === "tool_start" && id === "hang");
    const sleeper = (line["args"] as { pid: number }).pid;
    try {
      process.kill(running.pid, "SIGTERM");
      await running.lineWhere(({ text }) => text === "Not now.\n");
      process.kill(-running.pid, "SIGKILL");
      const ended = await running.ended;
      expect(ended.signal).toBe("SIGKILL");
      expect(types(linesOf(ended.stdout))).toEqual([...CUT_SHORT, "tool_start", "text"]);
      // The kill of the group does not reach it: that is what a sweep is for.
      expect(isAlive(sleeper)).toBe(true);
    } finally {
      process.kill(sleeper, "SIGKILL");
    }
  });
});
