import { afterAll, beforeAll, expect, test } from "vitest";
import { CliFolder, jsonLines, turnsFile, until } from "./cli-folder.ts";

let folder: CliFolder;
beforeAll(async () => {
  folder = await CliFolder.make();
  await folder.keepRedis();
  const lines = Array.from({ length: 60 }, (_, i) => ({
    id: `s${i}`,
    input: `what is ${i} and one?`,
    target: String(i + 1),
  }));
  await folder.write("sums.jsonl", turnsFile(lines));
});
afterAll(async () => {
  await folder.remove();
});

const TOKENS = ["inputTokens", "outputTokens", "cacheReadTokens"] as const;
type Tokens = Record<(typeof TOKENS)[number], number>;

async function summaryOf(...args: string[]): Promise<{
  usage: Tokens & { known: string };
  simulated: { usage: Tokens };
  ok: number;
  passed: number;
  scored: number;
}> {
  const { code, stdout, stderr } = await folder.run([
    "run",
    "sums.jsonl",
    "--agent",
    "sim",
    "--expect",
    "number",
    "--json",
    ...args,
  ]);
  expect(code, stderr).toBe(0);
  expect(stderr).toContain("SIMULATED");
  return jsonLines(stdout).at(-1) as never;
}

test("sim: the usage of a batch is what the simulator served, to the token, and the targets were its answers", async () => {
  const { usage, simulated, ok, passed, scored } = await summaryOf("--sim", "accuracy=1");
  expect([ok, passed, scored]).toEqual([60, 60, 60]);
  for (const kind of TOKENS) expect(usage[kind] ?? 0).toBe(simulated.usage[kind]);
  expect(usage.known).toBe("reported");
});

test("sim: with refusals the usage is exact still, and no turn fails for a rate limit", async () => {
  const { usage, simulated, ok } = await summaryOf("--sim", "429=0.05,500=0.1,seed=5");
  expect(ok).toBe(60);
  for (const kind of TOKENS) expect(usage[kind] ?? 0).toBe(simulated.usage[kind]);
  expect(usage.known).toBe("reported");
});

test("sim: with cut streams the usage is a floor, and never above what was served", async () => {
  const { usage, simulated } = await summaryOf("--sim", "cut=0.2,seed=3");
  expect(usage.known).toBe("partial");
  for (const kind of TOKENS) expect(usage[kind] ?? 0).toBeLessThanOrEqual(simulated.usage[kind]);
});

test("simulate says that it is simulated and what it served, and ends at SIGTERM, also with a request that hangs", async () => {
  await folder.write("answers.jsonl", '{"input":"2+2?","answer":"4"}\n');
  const simulator = folder.start(["simulate", "--answers", "answers.jsonl", "--fault", "hang=1", "--json"]);
  await until("its URL", () => simulator.stdout.includes("\n"));
  const [{ url, simulated }] = jsonLines(simulator.stdout) as unknown as [{ url: string; simulated: boolean }];
  expect(simulated).toBe(true);
  const hung = fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    body: JSON.stringify({ model: "simulated-1", messages: [{ role: "user", content: "2+2?" }] }),
  }).catch((error: unknown) => error);
  await until("the request", async () => {
    const served = (await (await fetch(`${url}/served`)).json()) as { requests: number };
    return served.requests === 1;
  });
  simulator.signal("SIGTERM");
  const { code, stderr } = await simulator.ended;
  expect(code).toBe(0);
  expect(stderr).toContain("SIMULATED");
  expect(stderr).toContain("served 1 requests");
  expect(await hung).toBeInstanceOf(Error);
});

test("what simulate cannot use is said before it listens", async () => {
  await folder.write("bad.jsonl", '{"input":"x"}\nno\n');
  for (const [args, text] of [
    [["--answers", "bad.jsonl"], "line 1: needs the texts input and answer; line 2: is no JSON"],
    [["--answers", "none.jsonl"], "none.jsonl"],
    [["--fault", "200=1"], "Faults are statuses from 400 to 599"],
    [["--latency-ms", "x"], '"x" is no latency'],
    [["--port", "99999"], "port from 0 to 65535"],
  ] as const) {
    const { code, stdout, stderr } = await folder.run(["simulate", ...args]);
    expect({ code: code === 0, stdout }).toEqual({ code: false, stdout: "" });
    expect(stderr).toContain(text);
  }
});
