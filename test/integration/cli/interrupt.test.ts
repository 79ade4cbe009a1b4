import { afterEach, beforeEach, expect, test } from "vitest";
import { openTurnq } from "../../../src/app.ts";
import { type CliFolder, jsonLines, samplesOf, stepFolder, turnsFile, until } from "./cli-folder.ts";

let folder: CliFolder;
let redis: { readonly url: string; readonly pid: number };
beforeEach(async () => {
  folder = await stepFolder();
  redis = await folder.keepRedis();
  await folder.write(
    "turns.jsonl",
    turnsFile([
      { id: "a", input: "work" },
      { id: "b", input: "work" },
      { id: "w1", input: "wait 1" },
      { id: "w2", input: "wait 2" },
      { id: "z", input: "work" },
    ]),
  );
});
afterEach(async () => {
  await folder.remove();
});

async function runs(): Promise<string[]> {
  return (await folder.read("runs.log")).split("\n").filter((line) => line !== "");
}

/** Starts the run, and waits until two turns are settled and two wait in the middle of their work. */
async function startedRun() {
  const run = folder.start(["run", "turns.jsonl", "--batch", "b", "--concurrency", "2"]);
  await until("two settled turns and two that run", async () => {
    if (run.child.exitCode !== null) throw new Error(run.stderr);
    const log = await runs();
    return ["b:w1:step:1 1", "b:w2:step:1 1"].every((line) => log.includes(line));
  });
  const turnq = await openTurnq({ redis: redis.url });
  for (const id of ["b:w1:step:1", "b:w2:step:1"]) {
    for await (const event of (await turnq.turn(id)).events()) if (event.type === "text_delta") break;
  }
  await turnq.close();
  return run;
}

async function settledSamples(): Promise<string[]> {
  return samplesOf(jsonLines((await folder.run(["results", "b"])).stdout));
}

test("Ctrl-C in mid-run hands the turns back, says how to go on, and going on runs only what is not settled", async () => {
  const run = await startedRun();
  run.signal("SIGINT");
  const { code, stderr } = await run.ended;
  expect(code).toBe(130);
  expect(stderr.trim().split("\n").at(-1)).toBe(
    "stopped: 2 of 5 turns are settled in batch b. To go on with it: turnq run turns.jsonl --concurrency 2 --batch b",
  );
  expect(await settledSamples()).toEqual(["a", "b"]);
  const [shown] = jsonLines((await folder.run(["show", "b:w1:step:1", "--json"])).stdout);
  expect(shown).toMatchObject({
    state: "waiting",
    attempts: [{ attempt: 1, status: "interrupted", record: { output: "half" } }],
  });

  await folder.write("go", "");
  const before = (await runs()).length;
  const again = await folder.run(["run", "turns.jsonl", "--batch", "b", "--json", "--quiet"]);
  expect(again.code).toBe(0);
  expect(jsonLines(again.stdout).at(-1)).toMatchObject({ turns: 5, settled: 5, ok: 5 });
  expect((await runs()).slice(before).toSorted()).toEqual(["b:w1:step:1 2", "b:w2:step:1 2", "b:z:step:1 1"]);
});

test("a second signal ends the run at once", async () => {
  const run = await startedRun();
  run.signal("SIGTERM");
  await run.saidOnStderr("stopping");
  // One that comes at once is taken for the same Ctrl-C.
  await until("the end", () => {
    run.signal("SIGTERM");
    return run.child.exitCode !== null || run.child.signalCode !== null;
  });
  const { code, signal } = await run.ended;
  expect({ code, signal }).toEqual({ code: 130, signal: null });
});

test("Ctrl-C before the input has ended stores nothing", async () => {
  const run = folder.start(["run", "-", "--batch", "early"], { input: "open" });
  // Written bytes that were taken over: the command reads, and waits for more.
  await new Promise((resolve) => run.child.stdin.write(`${'{"input":"work"}\n'.repeat(20_000)}`, resolve));
  run.signal("SIGINT");
  const { code, stderr } = await run.ended;
  expect(code).toBe(130);
  expect(stderr).toContain("stopped before anything was stored");
  expect((await folder.run(["results", "early"])).code).toBe(2);
});

test("kill -9 of the whole run: what was settled is not run again, the lost attempts are told with what they did", async () => {
  const run = await startedRun();
  await run.killHard();
  const settled = await settledSamples();
  expect(settled).toEqual(["a", "b"]);
  const before = (await runs()).length;

  await folder.write("go", "");
  const again = await folder.run(["run", "turns.jsonl", "--batch", "b", "--json"]);
  expect(again.code).toBe(0);
  const lines = jsonLines(again.stdout);
  expect(lines.at(-1)).toMatchObject({ turns: 5, settled: 5, ok: 5, crashedAttempts: 2 });
  expect((await runs()).slice(before).toSorted()).toEqual(["b:w1:step:1 2", "b:w2:step:1 2", "b:z:step:1 1"]);
  expect(lines.find(({ type, sample }) => type === "result" && sample === "w1")).toMatchObject({
    attempts: [
      { attempt: 1, status: "lost", usage: { inputTokens: 3, outputTokens: 1 } },
      { attempt: 2, status: "completed" },
    ],
    usage: { inputTokens: 6, outputTokens: 3, known: "partial" },
  });
  const [shown] = jsonLines((await folder.run(["show", "b:w1:step:1", "--json"])).stdout);
  expect(shown).toMatchObject({ attempts: [{ status: "lost", record: { crashed: true, output: "half" } }, {}] });
}, 120_000);

test("Redis is killed in mid-run and comes back: the run goes on, and nothing is run twice", async () => {
  const run = await startedRun();
  process.kill(redis.pid, "SIGKILL");
  // The keeper may have it back before the run looks again: what is told of it is another matter.
  expect((await folder.run(["list"])).code).toBe(0);
  await folder.write("go", "");
  const { code, stdout, stderr } = await run.ended;
  expect(code).toBe(0);
  expect(stderr.includes("Redis does not answer")).toBe(stderr.includes("Redis is back"));
  expect(stdout).toContain("5 ok, 0 failed");
  expect((await runs()).toSorted()).toEqual(["a", "b", "w1", "w2", "z"].map((sample) => `b:${sample}:step:1 1`));
}, 120_000);

test("submit, work and results are three processes", async () => {
  await folder.write("go", "");
  // The worker first: then the producer needs no configuration of its own.
  const work = folder.start(["work", "--concurrency", "3", "--agent", "step"]);
  await work.saidOnStderr("taking turns of step, 3 at once");
  await folder.write("none.json", "{}");
  const submitted = await folder.run([
    "submit",
    "turns.jsonl",
    "--agent",
    "step",
    "--batch",
    "b",
    "--config",
    "none.json",
  ]);
  expect(submitted).toMatchObject({ code: 0, stdout: "batch b: 5 turns, 5 new, 0 stored before\n" });
  expect(submitted.stderr).toContain("turnq results b");
  const twice = await folder.run(["submit", "turns.jsonl", "--agent", "step", "--batch", "b", "--json"]);
  const told = { type: "submitted", batch: "b", turns: 5, new: 0, duplicates: 5, unserved: [] };
  expect(jsonLines(twice.stdout)).toEqual([told]);
  expect(twice.stderr).toContain("keep the limits, retry rules and labels");

  await until("all results", async () => (await settledSamples()).length === 5);
  work.signal("SIGTERM");
  expect((await work.ended).code).toBe(0);
  expect(await runs()).toHaveLength(5);
});

test("Ctrl-C of a worker exits 130", async () => {
  const work = folder.start(["work"]);
  await work.saidOnStderr("taking turns");
  work.signal("SIGINT");
  const { code, stderr } = await work.ended;
  expect(code).toBe(130);
  expect(stderr).toContain("stopped. To go on: turnq work");
});
