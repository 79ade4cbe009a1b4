import { rm } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { jsonLines, samplesOf, stepFolder, turnsFile, until, type CliFolder, type Command } from "./cli-folder.ts";

let folder: CliFolder;
beforeAll(async () => {
  folder = await stepFolder();
  await folder.keepRedis();
  await folder.write(
    "turns.jsonl",
    turnsFile([
      { id: "a", input: "work", target: "answer 1", expect: [{ type: "equals" }] },
      { id: "b", input: "work", target: "something else", expect: [{ type: "equals" }] },
      { id: "c", input: "fail" },
    ]),
  );
});
afterAll(async () => {
  await folder.remove();
});

async function ok(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await folder.run(args);
  expect(code, stderr).toBe(0);
  return stdout;
}

describe("on a batch that has ended", () => {
  beforeAll(async () => {
    await ok("run", "turns.jsonl", "--batch", "ended", "--agent", "step", "--quiet");
  });

  test("watch ends at once with what became of it", async () => {
    expect(await ok("watch", "ended")).toBe(
      "batch ended: 3 of 3 settled: 2 ok, 1 failed, 0 cancelled, 0 expired; 1 of 2 passed\n" +
        "  agent_error 1: it failed (first: ended:c:step:1)\n",
    );
    expect(jsonLines(await ok("watch", "ended", "--json")).at(-1)).toMatchObject({
      type: "batch",
      turns: 3,
      settled: 3,
      passed: 1,
    });
  });

  test("list shows it, newest first, and its JSON has the counts", async () => {
    expect(await ok("list")).toMatch(/^batch .*\nended +\d{4}-\d\d-\d\d \d\d:\d\d +3 +0 +2 +1 +0 +1\/2 /);
    expect(jsonLines(await ok("list", "--json", "--limit", "1"))[0]).toMatchObject({ batch: "ended", turns: 3 });
  });

  test("events prints what a turn did, from a seq on", async () => {
    const all = jsonLines(await ok("events", "ended:a:step:1", "--json"));
    expect(all.map(({ type }) => type)).toEqual(expect.arrayContaining(["agent_start", "text_delta", "agent_end"]));
    expect(all.at(-1)?.type).toBe("turn_completed");
    const after = Number(all.at(-2)?.["seq"]);
    expect(jsonLines(await ok("events", "ended:a:step:1", "--json", "--after", String(after)))).toEqual([all.at(-1)]);
    expect(await ok("events", "ended:a:step:1", "--follow")).toContain("turn_completed");
  });

  test("D08: cancel leaves what is settled as it is, and says so", async () => {
    expect(jsonLines(await ok("cancel", "ended", "--json"))).toEqual([
      { type: "cancelled", batch: "ended", turns: 3, settled: 0, requested: 0, already: 3 },
    ]);
    expect(await ok("cancel", "ended:a:step:1")).toContain("settled before, and stays as it is");
  });

  test("results as CSV: a header, a row a turn, and no formula for a spreadsheet", async () => {
    await folder.write("odd.sh", `cat > /dev/null; printf '=1+1, "x"\\nsecond line'`);
    await folder.write(
      "odd.json",
      JSON.stringify({ agents: { odd: { type: "command", command: ["sh", "odd.sh"], output: "text" } } }),
    );
    await folder.write("one.jsonl", turnsFile([{ id: "o", input: "x" }]));
    await ok("run", "one.jsonl", "--config", "odd.json", "--batch", "odd", "--quiet");
    const [head, ...rows] = (await ok("results", "odd", "--format", "csv")).split("\n");
    expect(head).toMatch(/^turn,batch,sample,epoch,agent,status,ok,passed,score,output,/);
    expect(rows.join("\n")).toContain(`odd:o:odd:1,odd,o,1,odd,completed,true,,,"'=1+1, ""x""\nsecond line",,`);
    const told = await ok("results", "odd", "--format", "csv", "--out", "odd.csv", "--json");
    expect(jsonLines(told)).toEqual([{ type: "results", batch: "odd", out: "odd.csv", turns: 1, results: 1 }]);
    expect(await folder.read("odd.csv")).toBe([head, ...rows].join("\n"));
    const refused = await folder.run(["results", "odd", "--format", "csv", "--json"]);
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining("nothing but JSON")]);
    expect(await ok("results", "odd", "--json")).toBe(await ok("results", "odd"));
  });

  test("retry runs again what is asked for: missed, failed, one turn; cancelled ones after a cancel", async () => {
    const retried = async (...args: string[]): Promise<unknown> =>
      jsonLines(await ok("retry", ...args, "--json"))[0]?.["turns"];
    expect(await retried("ended", "--missed")).toBe(1);
    expect(await retried("ended", "--failed")).toBe(1);
    expect(await retried("ended:a:step:1")).toBe(1);
    const again = await folder.run(["retry", "ended:a:step:1"]);
    expect([again.code, again.stderr]).toEqual([2, expect.stringContaining("it is waiting")]);
    expect(jsonLines(await ok("cancel", "ended", "--json", "--reason", "enough"))[0]).toMatchObject({ settled: 3 });
    const lines = jsonLines(await ok("results", "ended"));
    expect(lines).toHaveLength(3);
    for (const line of lines) expect(line).toMatchObject({ status: "cancelled", error: "enough", generation: 2 });
    expect(await retried("ended", "--cancelled")).toBe(3);
    await ok("cancel", "ended");
  });
});

test("cancel from another process ends a batch that runs: what runs stops within its grace, what waits ends at once", async () => {
  await folder.write("slow.jsonl", turnsFile(["1", "2", "3"].map((id) => ({ id, input: "wait" }))));
  const run = folder.start(["run", "slow.jsonl", "--batch", "slow", "--agent", "step", "--concurrency", "1", "--json"]);
  await until("a turn that runs", async () => (await folder.read("runs.log")).includes("slow:1:step:1"));
  expect(await ok("cancel", "slow", "--reason", "wrong prompt")).toBe(
    "batch slow: 2 cancelled, 1 running and told to stop, 0 settled before\n",
  );
  const { code, stdout } = await run.ended;
  // Not one turn ended well.
  expect(code).toBe(1);
  const results = jsonLines(stdout).filter(({ type }) => type === "result");
  expect(samplesOf(results)).toEqual(["1", "2", "3"]);
  for (const result of results) expect(result).toMatchObject({ status: "cancelled", error: "wrong prompt" });
});

describe("a batch that runs elsewhere", () => {
  let run: Command;
  beforeAll(async () => {
    await folder.write("held.jsonl", turnsFile(["1", "2"].map((id) => ({ id, input: "wait" }))));
    run = folder.start(["run", "held.jsonl", "--batch", "held", "--agent", "step", "--concurrency", "1", "--json"]);
    await until("a turn that runs", async () => (await folder.read("runs.log")).includes("held:1:step:1"));
  });
  afterAll(async () => {
    await rm(join(folder.dir, "go"), { force: true });
  });

  test("Ctrl-C ends the watching only: exit 130, and the batch goes on", async () => {
    const watch = folder.start(["watch", "held", "--json"]);
    await until("progress", () => watch.stdout.includes('"type":"progress"'));
    watch.signal("SIGINT");
    const { code, stdout } = await watch.ended;
    expect(code).toBe(130);
    expect(jsonLines(stdout).at(-1)).toMatchObject({ type: "batch", turns: 2, settled: 0 });
    expect(run.child.exitCode).toBeNull();
  });

  test("results that are not all there yet: those that are, and what to type", async () => {
    const { code, stdout, stderr } = await folder.run(["results", "held"]);
    expect({ code, stdout }).toEqual({ code: 0, stdout: "" });
    expect(stderr).toContain("0 of 2 turns are settled");
  });

  test("watch and events --follow go along until the end, a turn that is told to stop shows its phases", async () => {
    const watch = folder.start(["watch", "held"]);
    const events = folder.start(["events", "held:1:step:1", "--follow", "--json"]);
    await until("an event of the running attempt", () => events.stdout.includes('"half"'));
    expect(await ok("cancel", "held:1:step:1", "--reason", "not this one")).toContain("told to stop");
    expect((await events.ended).code).toBe(0);
    expect(jsonLines(events.stdout).at(-1)).toMatchObject({ type: "turn_completed" });
    const story = await ok("show", "held:1:step:1");
    expect(story).toMatch(/^cancel requested \S+ by turnq cancel: not this one\n {2}told to stop \S+$/m);
    await folder.write("go", "");
    expect((await run.ended).code).toBe(0);
    expect(await watch.ended).toMatchObject({
      code: 0,
      stdout: "batch held: 2 of 2 settled: 1 ok, 0 failed, 1 cancelled, 0 expired\n",
    });
  });
});

test("agents lists the configured and the built-in ones, and says what cannot run", async () => {
  const chat = { type: "chat", baseUrl: "http://127.0.0.1:9/v1", model: "m", apiKeyEnv: "NO_SUCH_KEY" };
  await folder.write("chat.json", JSON.stringify({ agents: { gpt: chat } }));
  const agents = jsonLines(await ok("agents", "--config", "chat.json", "--json"));
  expect(agents.find(({ ["name"]: name }) => name === "gpt")).toMatchObject({
    kind: "chat",
    configured: true,
    problem: expect.stringContaining("NO_SUCH_KEY") as string,
  });
  expect(agents.map(({ ["name"]: name }) => name)).toEqual(expect.arrayContaining(["echo", "noop", "sim"]));
  expect(await ok("agents")).toMatch(/^agent .*\n/);
});

describe("an id that is nothing", () => {
  test.each([
    ["cancel", "nowhere"],
    ["watch", "nowhere"],
    ["events", "nowhere"],
    ["retry", "nowhere", "--failed"],
  ])("%s exits 2 and says so", async (...args) => {
    const { code, stdout, stderr } = await folder.run(args);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toContain("there is no such");
  });
});

describe("CSV as input", () => {
  const CSV = '\ufeffid,input,target,level\r\nx,"say ""hi"", please",hi,easy\r\ny,"two\nlines",,hard\r\n';

  test("from a file and from stdin: quotes, newlines in cells, a mark, and other columns as metadata", async () => {
    await folder.write("t.csv", CSV);
    const fromFile = jsonLines(await ok("run", "t.csv", "--agent", "echo", "--batch", "csv", "--json"));
    const results = fromFile
      .filter(({ type }) => type === "result")
      .toSorted((a, b) => (String(a["sample"]) < String(b["sample"]) ? -1 : 1));
    expect(results).toMatchObject([
      { sample: "x", output: 'say "hi", please', target: "hi", metadata: { level: "easy" } },
      { sample: "y", output: "two\nlines", metadata: { level: "hard" } },
    ]);
    expect(results[1]).not.toHaveProperty("target");
    const piped = folder.start(
      ["submit", "-", "--input-format", "csv", "--agent", "echo", "--batch", "csv2", "--json"],
      { input: CSV },
    );
    expect((await piped.ended).code).toBe(0);
    expect(jsonLines(piped.stdout)[0]).toMatchObject({ turns: 2, new: 2 });
  });

  test.each([
    ["a row with too many cells", "id,input\n1,a\n2,b,c\n3,d\n", "line 3"],
    ["a column twice", "id,id\n1,2\n", 'the header has the column "id" twice'],
    ["no UTF-8", new Uint8Array([0x69, 0x6e, 0x70, 0x75, 0x74, 0x0a, 0xff, 0x0a]), "not valid UTF-8"],
    ["metadata that is no JSON", "input,metadata\na,{\n", "line 2: field metadata: must be a JSON object"],
    ["no rows", "id,input\n", "no turns"],
  ])("%s: exit 2, and nothing is stored", async (_name, content, text) => {
    await folder.write("bad.csv", content);
    const { code, stdout, stderr } = await folder.run(["run", "bad.csv", "--agent", "echo", "--batch", "badcsv"]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toContain(text);
    expect((await folder.run(["watch", "badcsv"])).code).toBe(2);
  });
});
