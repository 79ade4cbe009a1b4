import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type CliFolder, jsonLines, samplesOf, stepFolder, turnsFile } from "./cli-folder.ts";

let folder: CliFolder;
beforeAll(async () => {
  folder = await stepFolder();
  await folder.keepRedis();
  await folder.write(
    "three.jsonl",
    turnsFile([1, 2, 3].map((n) => ({ id: `s${n}`, input: `work ${n}`, target: "answer 1" }))),
  );
});
afterAll(async () => {
  await folder.remove();
});

async function runsOf(batch: string): Promise<string[]> {
  return (await folder.read("runs.log")).split("\n").filter((line) => line.startsWith(`${batch}:`));
}

test("run submits, works and reports: a table, the results file, what to type next, and the id at both ends", async () => {
  const { code, stdout, stderr } = await folder.run([
    "run",
    "three.jsonl",
    "--agent",
    "echo",
    "--expect",
    "includes",
    "--batch",
    "first",
  ]);
  expect(code).toBe(0);
  expect(stdout).toMatch(
    /^agent +turns +ok +failed +passed \(95 %\) +attempts +crashed +tokens +cost +wasted\necho +3 +3 +0 +0\/3 0 % \[0, 56\] +3 +0 +- +- +none\n/,
  );
  expect(stdout).toContain("/.turnq/results/first.jsonl");
  expect(stdout).toContain("  turnq show first:");
  expect(stdout).toContain("  turnq results first --messages\n");
  const said = stderr.trim().split("\n");
  const goOn = "turnq run three.jsonl --agent echo --expect includes --batch first";
  expect(said.at(0)).toContain(goOn);
  expect(said.at(-1)).toContain(goOn);
  const lines = jsonLines(await folder.read(".turnq/results/first.jsonl"));
  expect(samplesOf(lines)).toEqual(["s1", "s2", "s3"]);
  expect(lines.find(({ sample }) => sample === "s2")).toMatchObject({
    type: "result",
    batch: "first",
    output: "work 2",
    ok: true,
  });
});

test("the same batch again runs nothing and gives the same results", async () => {
  const command = ["run", "three.jsonl", "--expect", "equals", "--batch", "again"];
  expect((await folder.run(command)).code).toBe(0);
  const before = jsonLines(await folder.read(".turnq/results/again.jsonl"));
  expect(await runsOf("again")).toHaveLength(3);

  const { code, stderr, stdout } = await folder.run(command);
  expect(code).toBe(0);
  expect(stderr).toContain("0 new, 3 stored before");
  expect(stdout).toContain("3/3 100 %");
  expect(await runsOf("again")).toHaveLength(3);
  expect(jsonLines(await folder.read(".turnq/results/again.jsonl"))).toEqual(before);
});

test("more epochs of a batch run only what is new", async () => {
  expect((await folder.run(["run", "three.jsonl", "--batch", "more"])).code).toBe(0);
  const { code, stderr } = await folder.run(["run", "three.jsonl", "--batch", "more", "--epochs", "2"]);
  expect(code).toBe(0);
  expect(stderr).toContain("3 new, 3 stored before");
  expect(await runsOf("more")).toHaveLength(6);
  expect(jsonLines(await folder.read(".turnq/results/more.jsonl"))).toHaveLength(6);
});

test("--json: one object a line and nothing else, results on stdout, the summary last", async () => {
  const { code, stdout } = await folder.run(["run", "three.jsonl", "--expect", "equals", "--batch", "json", "--json"]);
  expect(code).toBe(0);
  const lines = jsonLines(stdout);
  expect(new Set(lines.map(({ type }) => type))).toEqual(new Set(["progress", "result", "summary"]));
  expect(samplesOf(lines)).toEqual(["s1", "s2", "s3"]);
  const summary = lines.at(-1) ?? {};
  expect(Object.keys(summary)).toEqual([
    "type",
    "batch",
    "turns",
    "settled",
    "ok",
    "failed",
    "cancelled",
    "expired",
    "scored",
    "passed",
    "attempts",
    "crashedAttempts",
    "usage",
    "wastedUsage",
    "failures",
    "durationMs",
    "byAgent",
  ]);
  expect(summary).toMatchObject({ type: "summary", batch: "json", turns: 3, settled: 3, ok: 3, scored: 3, passed: 3 });
  expect(await folder.read(".turnq/results/json.jsonl")).toBe("");
});

test("--json with --out: results in the file, none on stdout; --messages puts transcripts in", async () => {
  const { code, stdout } = await folder.run([
    "run",
    "three.jsonl",
    "--batch",
    "out",
    "--json",
    "--quiet",
    "--messages",
    "--out",
    "sub/out.jsonl",
  ]);
  expect(code).toBe(0);
  expect(jsonLines(stdout).map(({ type }) => type)).toEqual(["summary"]);
  const lines = jsonLines(await folder.read("sub/out.jsonl"));
  expect(lines).toHaveLength(3);
  expect(lines[0]?.["messages"]).toMatchObject([
    { role: "user" },
    { role: "assistant", content: "half" },
    { role: "assistant", content: "answer 1" },
  ]);
});

test("a pipe is an input, also without a newline at its end; --map and --limit hold", async () => {
  const input = '{"q": "work 1", "n": 7}\r\n\n{"q": "work 2", "n": 8}\n{"q": "work 3", "n": 9}';
  const args = ["run", "-", "--batch", "pipe", "--map", "input=q,id=n", "--limit", "2", "--json", "--quiet"];
  const { code, stdout } = await folder.run(args, { input });
  expect(code).toBe(0);
  expect(samplesOf(jsonLines(stdout))).toEqual(["7", "8"]);
});

test("turns in a lane that is no agent's own are run too", async () => {
  const { code, stdout } = await folder.run(["run", "-", "--batch", "lanes", "--lane", "side", "--json", "--quiet"], {
    input: '{"input": "work"}\n{"input": "work", "lane": "other"}\n',
  });
  expect(code).toBe(0);
  expect(jsonLines(stdout).at(-1)).toMatchObject({ turns: 2, ok: 2 });
});

describe("what is wrong with an input is said before anything is stored", () => {
  test("A20 C20 A23: bad lines with number and field, the first 100 printed and the rest counted, exit 2", async () => {
    const good = Array.from({ length: 5 }, (_, n) => JSON.stringify({ id: n, input: "work" }));
    const bad = [
      '{"id": "0", "input": "a second 0"}',
      '{"id": "", "input": "x"}',
      '{"id": "a b", "input": "x"}',
      '{"inptu": "x"}',
      "not json",
      '{"input": "x", "limits": {"timeoutMs": "soon"}}',
      ...Array.from({ length: 110 }, () => "{}"),
    ];
    await folder.write("bad.jsonl", `\uFEFF${[...good, ...bad].join("\r\n")}`);
    const { code, stdout, stderr } = await folder.run(["run", "bad.jsonl", "--batch", "bad"]);
    expect(code).toBe(2);
    expect(stdout).toBe("");
    expect(stderr).toContain('line 6, field id: the id "0" is already on line 1\n');
    expect(stderr).toContain("line 7, field id: ");
    expect(stderr).toContain("line 8, field id: must be 1 to 200 characters");
    expect(stderr).toContain('unknown key "inptu" (did you mean "input"?)');
    expect(stderr).toContain("line 10: is not valid JSON");
    expect(stderr).toContain("line 11, field limits.timeoutMs: must be a number");
    const shown = stderr.split("\n").filter((line) => /^line \d+/.test(line));
    const lines = new Set(shown.map((line) => /^line \d+/.exec(line)?.[0]));
    const more = Number(/and (\d+) more bad lines/.exec(stderr)?.[1]);
    expect(lines.size).toBe(100);
    expect(more).toBe(bad.length - 100);
    expect(stderr).toContain(`error: ${bad.length} bad lines in the input, nothing was queued`);
    expect(await folder.run(["results", "bad"])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("there is no such batch"),
    });
  });

  test.each([
    ["an empty file", ["run", "empty.jsonl"], "no turns"],
    ["no file", ["run", "none.jsonl"], "none.jsonl"],
    ["an unknown agent", ["run", "three.jsonl", "--agent", "stepp"], 'unknown agent "stepp" (did you mean "step"?)'],
    ["an unknown agent of a worker", ["work", "--agent", "ekko"], 'unknown agent "ekko" (did you mean "echo"?)'],
    [
      "a column that is not there",
      ["run", "three.jsonl", "--map", "input=inputt"],
      'no column "inputt" (did you mean "input"?)',
    ],
    ["no such sample", ["run", "three.jsonl", "--sample", "s9"], 'no line has the sample "s9"'],
    ["a batch that is not there", ["retry", "nowhere", "--failed"], "there is no such turn or batch"],
    ["a turn that is not there", ["show", "nowhere"], "there is no such turn"],
    ["a retry of nothing", ["retry", "first"], "turnq retry first --failed"],
  ])("%s: exit 2", async (_, args, text) => {
    await folder.write("empty.jsonl", "");
    const { code, stdout, stderr } = await folder.run(args);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toContain(text);
  });

  test("a configuration with two agents: the one that is meant must be named", async () => {
    await folder.write("two.json", JSON.stringify({ agents: { one: { type: "echo" }, two: { type: "noop" } } }));
    const { code, stderr } = await folder.run(["run", "three.jsonl", "--config", "two.json"]);
    expect(code).toBe(2);
    expect(stderr).toMatch(/no agent is named\. Name agents with --agent; known are .*one.*two/);
  });

  test("a configuration that is wrong: the file and the field", async () => {
    await folder.write("wrong.json", JSON.stringify({ agents: { one: { type: "command" } } }));
    const { code, stderr } = await folder.run(["run", "three.jsonl", "--config", "wrong.json"]);
    expect(code).toBe(2);
    expect(stderr).toMatch(/wrong\.json: .*command/);
  });

  test("A22: another content for a sample of the batch: an error, and nothing of the file is stored", async () => {
    expect((await folder.run(["run", "three.jsonl", "--batch", "taken"])).code).toBe(0);
    await folder.write(
      "other.jsonl",
      turnsFile([
        { id: "s4", input: "work 4" },
        { id: "s2", input: "work, but else" },
      ]),
    );
    const { code, stderr } = await folder.run(["run", "other.jsonl", "--batch", "taken"]);
    expect(code).toBe(2);
    expect(stderr).toContain(
      "batch taken: 1 turn exists with other content: sample s2 of step (other input, target). Nothing",
    );
    expect(jsonLines((await folder.run(["results", "taken"])).stdout)).toHaveLength(3);
    expect(await runsOf("taken")).toHaveLength(3);
  });
});

test("the exit code is 0 also with failed turns; --threshold and --fail-on-error make it 1", async () => {
  await folder.write(
    "mixed.jsonl",
    turnsFile([
      { input: "work", target: "answer 1" },
      { input: "fail", target: "answer 1" },
    ]),
  );
  const command = ["run", "mixed.jsonl", "--expect", "equals", "--batch", "codes"];
  const first = await folder.run(command);
  expect(first.code).toBe(0);
  expect(first.stdout).toContain("  turnq retry codes --failed\n");
  expect(first.stdout).toContain("\n  agent_error 1: it failed (first: codes:2:step:1)\n");
  expect((await folder.run([...command, "--fail-on-error"])).code).toBe(1);
  expect((await folder.run([...command, "--threshold", "0.5"])).code).toBe(0);
  const under = await folder.run([...command, "--threshold", "0.6"]);
  expect(under.code).toBe(1);
  expect(under.stderr).toContain("1 of 2 passed, below the threshold of 0.6");
});

test("retry --failed opens new generations, and the same run command runs them", async () => {
  await folder.write("fails.jsonl", turnsFile([{ input: "work" }, { input: "fail 1" }, { input: "fail 2" }]));
  const command = ["run", "fails.jsonl", "--batch", "mend", "--json", "--quiet"];
  expect(jsonLines((await folder.run(command)).stdout).at(-1)).toMatchObject({ ok: 1, failed: 2 });

  await folder.write("mended", "");
  const retried = await folder.run(["retry", "mend", "--failed"]);
  expect(retried).toMatchObject({ code: 0, stdout: "batch mend: 2 turns to be run again\n" });
  expect(retried.stderr).toContain("turnq run FILE --batch mend");
  expect(jsonLines((await folder.run(["results", "mend"])).stdout)).toHaveLength(1);

  const lines = jsonLines((await folder.run(command)).stdout);
  expect(lines.at(-1)).toMatchObject({ turns: 3, settled: 3, ok: 3, failed: 0 });
  expect(lines.find(({ sample }) => sample === "2")).toMatchObject({ generation: 2, output: "answer 2" });
  expect(await runsOf("mend")).toHaveLength(5);
  // Five attempts over both generations, each with 3 input tokens; the two that failed were wasted.
  const whole = { attempts: 5, usage: { inputTokens: 15 }, wastedUsage: { inputTokens: 6 } };
  expect(lines.at(-1)).toMatchObject({ ...whole, byAgent: { step: whole } });
  expect(lines.filter(({ type }) => type === "result")).toHaveLength(3);

  const { stdout } = await folder.run(["show", "mend:2:step:1"]);
  expect(stdout).toContain("earlier  --generation N shows one\n  generation 1  failed (failed): it failed\n");
  const first = await folder.run(["show", "mend:2:step:1", "--generation", "1"]);
  expect(first.stdout).toMatch(
    /attempt 1 {2}failed [^]*partial output:\n {4}half\n[^]*transcript\n {2}user\n {4}fail 1\n/,
  );
  expect(first.stdout).not.toContain("attempt 2");
  expect(first.stdout).toMatch(/result {2}not ok \(failed\)\n {2}it failed/);
  expect(await folder.run(["show", "mend:2:step:1", "--generation", "3"])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("there is no Result of generation 3"),
  });
});

describe("show", () => {
  beforeAll(async () => {
    await folder.write("crash.jsonl", turnsFile([{ id: "c", input: "crash once", target: "answer 2" }]));
    expect((await folder.run(["run", "crash.jsonl", "--expect", "equals", "--batch", "crash"])).code).toBe(0);
  });

  test("of a turn that crashed once: both attempts, what the first did and cost, what the second answered", async () => {
    const { code, stdout } = await folder.run(["show", "crash:c:step:1"]);
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /attempt 1 {2}crashed .*\n.*\n {2}agent_crash: .*SIGKILL.*\n {2}usage: 3 input tokens, 1 output tokens.*\n {2}partial output:\n {4}half\n/,
    );
    expect(stdout).toMatch(/attempt 2 {2}completed /);
    expect(stdout).toMatch(/transcript\n {2}user\n {4}crash once\n/);
    expect(stdout).toMatch(/cost\n {2}6 input tokens, 3 output tokens.*\n {2}wasted: ≥ 4 tokens/);
    expect(stdout).toMatch(/result {2}ok \(completed\)\n {2}answer 2\n {2}checks: equals passed\n/);
  });

  test("--json: one object with the records", async () => {
    const { stdout } = await folder.run(["show", "crash:c:step:1", "--json"]);
    const [turn, ...more] = jsonLines(stdout);
    expect(more).toEqual([]);
    expect(turn).toMatchObject({
      type: "turn",
      id: "crash:c:step:1",
      state: "settled",
      request: { input: "crash once" },
      attempts: [
        { attempt: 1, status: "crashed", record: { crashed: true, output: "half" } },
        { attempt: 2, status: "completed", record: { output: "answer 2" } },
      ],
      result: { ok: true, output: "answer 2" },
    });
  });
});
