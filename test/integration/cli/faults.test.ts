import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { laneKey } from "../../../src/ledger/keys.ts";
import { LaneSet } from "../../../src/queue/lane-set.ts";
import { RETENTION, retire } from "../../../src/queue/retention.ts";
import { SILENT } from "../../../src/telemetry/log.ts";
import { jsonLines, samplesOf, stepFolder, turnsFile, until, type CliFolder } from "./cli-folder.ts";

let folder: CliFolder;
let url = "";
beforeAll(async () => {
  folder = await stepFolder();
  ({ url } = await folder.keepRedis());
  await folder.write("one.jsonl", turnsFile([{ id: "a", input: "work" }]));
});
afterAll(async () => {
  await folder.remove();
});

describe("a place that results cannot be written to is said before anything is stored", () => {
  test.each([
    ["a path under a file", "one.jsonl/r.jsonl"],
    ["a path where no folder can be made", "/proc/nowhere/r.jsonl"],
    ["a folder", "results"],
    ["a device that is full", "/dev/full"],
  ])("%s", async (_, out) => {
    await mkdir(join(folder.dir, "results"), { recursive: true });
    const { code, stdout, stderr } = await folder.run(["run", "one.jsonl", "--batch", "unwritten", "--out", out]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toContain(out);
    expect((await folder.run(["watch", "unwritten"])).code).toBe(2);
  });

  test("nor do results overwrite what is none of theirs", async () => {
    expect((await folder.run(["run", "one.jsonl", "--batch", "kept"])).code).toBe(0);
    const { code, stderr } = await folder.run(["results", "kept", "--out", "one.jsonl"]);
    expect([code, stderr]).toEqual([2, expect.stringContaining("would be overwritten")]);
    for (let again = 0; again < 2; again += 1)
      expect((await folder.run(["results", "kept", "--format", "csv", "--out", "kept.csv"])).code).toBe(0);
  });
});

test("U15: a key that only workers need: submit stores without it, run refuses before anything is stored", async () => {
  const gpt = { type: "chat", baseUrl: "http://127.0.0.1:9/v1", model: "m", apiKeyEnv: "NO_SUCH_KEY" };
  await folder.write("keyless.json", JSON.stringify({ agents: { gpt } }));
  const options = ["one.jsonl", "--config", "keyless.json", "--agent", "gpt", "--batch"];
  const [submitted, refused] = await Promise.all([
    folder.run(["submit", ...options, "keyless", "--json"]),
    folder.run(["run", ...options, "refused", "--json"]),
  ]);
  expect({ code: submitted.code, stderr: submitted.stderr }).toMatchObject({ code: 0 });
  expect(jsonLines(submitted.stdout)).toMatchObject([{ type: "submitted", turns: 1, new: 1 }]);
  expect({ code: refused.code, stdout: refused.stdout }).toEqual({ code: 2, stdout: "" });
  expect(refused.stderr).toContain(
    "error: agent gpt: its key is not there: NO_SUCH_KEY is not set in the environment.",
  );
  expect(refused.stderr).not.toMatch(/\bline/);
  expect((await folder.run(["watch", "refused"])).code).toBe(2);
});

test("a part of a batch whose other turns are of another agent: run works on these too, and ends", async () => {
  await folder.write(
    "two.jsonl",
    turnsFile([
      { id: "a", input: "work" },
      { id: "b", input: "hello", agent: "echo" },
    ]),
  );
  expect((await folder.run(["submit", "two.jsonl", "--batch", "part"])).code).toBe(0);
  const { code, stdout, stderr } = await folder.run(["run", "two.jsonl", "--batch", "part", "--limit", "1", "--json"]);
  expect(code).toBe(0);
  expect(stderr).toContain("1 turn more of the batch, stored before, is run too");
  expect(jsonLines(stdout).at(-1)).toMatchObject({ type: "summary", turns: 2, settled: 2, ok: 2 });
});

test("a batch of which retention has removed turns: run says so and runs them anew, results that they are gone", async () => {
  const command = ["run", "three.jsonl", "--batch", "aged"];
  await folder.write("three.jsonl", turnsFile(["a", "b", "c"].map((id) => ({ id, input: "work" }))));
  expect((await folder.run(command)).code).toBe(0);
  const redis = new Redis(url);
  const lanes = new LaneSet(redis, SILENT);
  try {
    const at = Date.now() - 8 * 86_400_000;
    for (const id of ["a", "b", "c"]) {
      await redis.hset(laneKey("step", "row", `aged:${id}:step:1`), "settledAt", at);
      await redis.zadd(laneKey("step", "state", "settled"), "XX", at, `aged:${id}:step:1`);
    }
    const kept = { lane: lanes.get("step"), upkeep: lanes.upkeep("step"), log: SILENT };
    expect(await retire(kept, () => Promise.resolve([]), RETENTION, "")).toMatchObject({ turns: 3 });
  } finally {
    await lanes.close();
    redis.disconnect();
  }
  const gone = await folder.run(["results", "aged"]);
  expect(gone).toMatchObject({ code: 0, stdout: "" });
  expect(gone.stderr).toContain("the results of 3 turns are gone: retention has removed them");

  const { code, stdout, stderr } = await folder.run([...command, "--limit", "2", "--json", "--out", "aged.jsonl"]);
  expect(code, stderr).toBe(0);
  expect(stderr).toContain("retention has removed 3 turns that the batch had");
  expect(stderr).not.toContain("more of the batch");
  expect(jsonLines(stdout).at(-1)).toMatchObject({ turns: 2, settled: 2, ok: 2, retired: 3 });
  expect(samplesOf(jsonLines(await folder.read("aged.jsonl")))).toEqual(["a", "b"]);
});

test("--quiet: no word but the results", async () => {
  const { code, stdout, stderr } = await folder.run(["run", "one.jsonl", "--batch", "still", "--quiet"]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(stdout).toMatch(/^agent .*\nstep +1 +1 [^]*results: .*still\.jsonl\n$/);
  expect(await folder.run(["submit", "one.jsonl", "--batch", "still2", "--quiet"])).toMatchObject({
    code: 0,
    stdout: "batch still2: 1 turn, 1 new, 0 stored before\n",
    stderr: "",
  });
});

test("turns of a session run in their order, one after the other", async () => {
  const [first, second] = [
    { id: "1", input: "work one", session: "talk" },
    { id: "2", input: "work two", session: "talk" },
  ];
  await folder.write("talk.jsonl", turnsFile([first, second]));
  const { stdout } = await folder.run(["run", "talk.jsonl", "--batch", "talk", "--json", "--quiet"]);
  const results = jsonLines(stdout).filter(({ type }) => type === "result");
  expect(samplesOf(results)).toEqual(["1", "2"]);
  const order = (await folder.read("runs.log")).split("\n").filter((line) => line.startsWith("talk:"));
  expect(order).toEqual(["talk:1:step:1 1", "talk:2:step:1 1"]);
});

test("work, watch and events tell of a turn while it runs, and the last two end with it", async () => {
  await folder.write("wait.jsonl", turnsFile([{ id: "w", input: "wait" }]));
  const work = folder.start(["work", "--agent", "step", "--json"]);
  await work.saidOnStderr("taking turns");
  expect((await folder.run(["submit", "wait.jsonl", "--batch", "wait", "--quiet"])).code).toBe(0);
  const turn = "wait:w:step:1";
  await until("a turn that runs", async () => (await folder.read("runs.log")).includes(turn));
  const watch = folder.start(["watch", "wait", "--json"]);
  const events = folder.start(["events", turn, "--follow", "--json"]);
  const said = (text: string, type: string): (() => boolean) => {
    return () => text.split("\n").some((line) => line.includes(`"${type}"`));
  };
  await until("progress", () => said(watch.stdout, "progress")());
  await until("an event", () => said(events.stdout, "text_delta")());
  await until("progress of the worker", () => work.stdout.includes('{"type":"work","running":1,"ended":0'));
  await folder.write("go", "");

  const [watched, followed] = await Promise.all([watch.ended, events.ended]);
  expect([watched.code, followed.code]).toEqual([0, 0]);
  expect(jsonLines(watched.stdout).at(-1)).toMatchObject({ type: "batch", turns: 1, settled: 1, ok: 1 });
  const types = jsonLines(followed.stdout).map(({ type }) => type);
  expect(types.at(-1)).toBe("turn_completed");
  expect(new Set(jsonLines(followed.stdout).map(({ seq }) => seq)).size).toBe(types.length);
  await until("the end in the worker's progress", () => work.stdout.includes('"running":0,"ended":1'));
  work.signal("SIGTERM");
  expect((await work.ended).code).toBe(0);
});

test("a folder that is deleted with its Redis in mid-run: run and watch end with 3", async () => {
  const other = await stepFolder();
  try {
    await other.write("wait.jsonl", turnsFile([{ id: "w", input: "wait" }]));
    const run = other.start(["run", "wait.jsonl", "--batch", "gone"]);
    await until("a turn that runs", async () => (await other.read("runs.log")).includes("gone:w"));
    const watch = other.start(["watch", "gone"]);
    await watch.saidOnStderr("1 running");
    await rm(join(other.dir, ".turnq"), { recursive: true, force: true, maxRetries: 5 });
    for (const { code, stderr } of await Promise.all([run.ended, watch.ended])) {
      expect(code, stderr).toBe(3);
      expect(stderr).toContain("error: ");
    }
  } finally {
    await other.remove();
  }
});
