import { afterAll, beforeAll, expect, test } from "vitest";
import { jsonLines, stepFolder, STEP_CONFIG, turnsFile, until, type CliFolder } from "./cli-folder.ts";

let folder: CliFolder;
beforeAll(async () => {
  folder = await stepFolder();
  await folder.keepRedis();
  const { agents } = JSON.parse(STEP_CONFIG) as { agents: object };
  const broken = { type: "module", module: "./broken.mjs" };
  await folder.write("turnq.config.json", JSON.stringify({ agents: { ...agents, broken } }));
  await folder.write("turns.jsonl", turnsFile([{ id: "a", input: "work" }]));
});
afterAll(async () => {
  await folder.remove();
});

test("U01: work does not start without one of its agents, but with --allow-missing; agents, doctor and submit say what is missing and who is not there", async () => {
  const refused = await folder.run(["work"]);
  expect([refused.code, refused.stdout]).toEqual([2, ""]);
  expect(refused.stderr).toContain("broken (the module ./broken.mjs does not exist");
  expect(refused.stderr).toContain("--allow-missing");

  const alone = await folder.run(["submit", "turns.jsonl", "--agent", "step", "--batch", "b"]);
  expect(alone.code).toBe(0);
  expect(alone.stderr).toMatch(/^warning: no worker that is up runs agent "step": its turns wait for one$/m);

  const worker = folder.start(["work", "--allow-missing"]);
  await worker.saidOnStderr("taking turns of echo, noop, step, 10 at once");
  await until("the run of the turn", async () => (await folder.read("runs.log")).includes("b:a:step:1"));
  const submitted = await folder.run(["submit", "turns.jsonl", "--agent", "step", "--batch", "c", "--json"]);
  expect(submitted.stderr).not.toContain("no worker");
  expect(jsonLines(submitted.stdout)).toMatchObject([{ type: "submitted", unserved: [] }]);

  const problem = expect.stringContaining("./broken.mjs does not exist") as string;
  const agents = jsonLines((await folder.run(["agents", "--json"])).stdout);
  expect(agents.find(({ ["name"]: name }) => name === "step")).toMatchObject({ workers: 1 });
  expect(agents.at(-1)).toMatchObject({ type: "missing", agent: "broken", problem });
  expect((await folder.run(["agents"])).stderr).toMatch(/^broken is missing on worker \S+, which tries it again/m);
  const doctor = await folder.run(["doctor", "--json"]);
  expect(doctor.code).toBe(1);
  expect(jsonLines(doctor.stdout).at(-1)).toMatchObject({
    ok: false,
    severity: "error",
    found: expect.stringMatching(/^lacks agent broken: .*does not exist/),
  });

  worker.signal("SIGTERM");
  expect((await worker.ended).code).toBe(0);
  const after = await folder.run(["agents"]);
  expect(after.stdout).toMatch(/^step .* none since \d{4}-\d\d-\d\d \d\d:\d\d/m);
  const told = await folder.run(["submit", "turns.jsonl", "--agent", "step", "--batch", "d", "--json"]);
  expect(jsonLines(told.stdout)).toMatchObject([{ unserved: [{ agent: "step", sinceAt: expect.any(Number) }] }]);
});
