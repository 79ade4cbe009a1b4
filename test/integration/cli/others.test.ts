import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openTurnq } from "../../../src/app.ts";
import type { Turnq } from "../../../src/turnq.ts";
import { throwAwayRedis, type ThrowAwayRedis } from "../../redis.ts";
import { jsonLines, turnsFile, until, type Line } from "./cli-folder.ts";
import { InProcess, type Told } from "./in-process.ts";

let redis: ThrowAwayRedis;
let folder: InProcess;
let turnq: Turnq;
beforeAll(async () => {
  redis = await throwAwayRedis();
  folder = await InProcess.make(redis.url);
  const script = [{ call: true }, { usage: { inputTokens: 10, outputTokens: 5, costUsd: 0.25 } }, { say: "ok" }];
  await folder.write("turnq.config.json", {
    agents: {
      m: { type: "scripted", lane: "shared", script },
      elsewhere: { type: "scripted", lane: "shared" },
    },
  });
  await folder.write("two.jsonl", turnsFile(["1", "2"].map((id) => ({ id, input: "x" }))));
  turnq = await openTurnq({ redis: redis.url, agents: [], env: {} });
});
afterAll(async () => {
  await turnq.close();
  await folder.remove();
  await redis.stop();
});

const file = (name: string): string => join(folder.dir, name);

async function submit(batch: string, agent = "m"): Promise<void> {
  expect((await folder.run(["submit", "two.jsonl", "--agent", agent, "--batch", batch])).code).toBe(0);
}

function loose(id: string): Promise<unknown> {
  return turnq.submit({ id, agent: "m", lane: "shared", input: "x" });
}

/** One turn at once: what waits in the lane before the batch's turns is run before them. */
const run = (batch: string, ...more: string[]): Promise<Told> =>
  folder.run(["run", "two.jsonl", "--agent", "m", "--batch", batch, "--concurrency", "1", ...more]);

const summaryOf = ({ stdout }: Told): Line => jsonLines(stdout).at(-1) ?? {};

describe("U05: run says whose turns it works on beside its own, before and after", () => {
  test("U05: with --only it does not begin while others wait: exit 2, nothing is stored, and the commands that it names end them", async () => {
    await submit("a");
    await loose("l1");
    const { code, stdout, stderr } = await run("only", "--only");
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toContain(
      "3 turns of others wait in its lanes, and are run and paid for too: 2 of batch a, 1 of no batch. Nothing was stored.",
    );
    expect((await folder.run(["watch", "only"])).stderr).toContain("there is no such batch");
    const cancels = [...stderr.matchAll(/turnq (cancel \S+?)(?:;|\.?$)/gm)].map(([, words = ""]) => words.split(" "));
    expect(cancels).toEqual([
      ["cancel", "a"],
      ["cancel", "l1"],
    ]);
    for (const cancel of cancels) expect((await folder.run(cancel)).code).toBe(0);
    const begun = await run("only", "--only", "--json", "--quiet");
    expect([begun.code, begun.stderr, summaryOf(begun)["others"]]).toEqual([0, "", undefined]);
    // What is complete runs nothing, whoever waits.
    await submit("later");
    expect((await run("only", "--only", "--quiet")).code).toBe(0);
    await folder.run(["cancel", "later"]);
  });

  test("U05: turns of an agent that it does not have are not run by it, and hold up no --only", async () => {
    await submit("x", "elsewhere");
    const told = await run("mine", "--only", "--json", "--quiet");
    expect([told.code, summaryOf(told)["others"]]).toEqual([0, undefined]);
    await folder.run(["cancel", "x"]);
  });

  test("U05: before it starts how many of whom, and how to cancel them; at the end a line of their own with tokens and cost", async () => {
    await submit("a2");
    await loose("l2");
    const { code, stdout, stderr } = await run("b2");
    expect(code).toBe(0);
    const before = "3 turns of others wait in its lanes, and are run and paid for too: 2 of batch a2, 1 of no batch\n";
    expect(stderr).toContain(
      `${before}with --only a run does not begin while others wait; to end them:\n  turnq cancel a2\n  turnq cancel l2\n`,
    );
    expect(stderr.indexOf(before)).toBeLessThan(stderr.indexOf(" done, "));
    expect(stdout).toContain("2 turns in ");
    expect(stdout).toContain("; usage 30 tokens, $0.5000\n");
    expect(stdout).toContain(
      "\nrun for others too: 3 turns in 3 attempts, 2 of batch a2, 1 of no batch; usage 45 tokens, $0.7500\n",
    );
  });

  test("U05: with --json both are in the summary; what comes while it runs is in it, and a delayed turn of others only waits", async () => {
    await submit("a3");
    await turnq.submit({ id: "far", agent: "m", lane: "shared", input: "x", delayMs: 3_600_000 });
    const go = file("go");
    const script = [{ append: file("begun"), line: "{turn}" }, { waitFor: go }, { answer: "ok" }];
    await folder.write("held.jsonl", turnsFile([{ id: "1", input: "x", options: { script } }]));
    const args = ["run", "held.jsonl", "--agent", "m", "--batch", "b3", "--concurrency", "2", "--json", "--quiet"];
    const running = folder.run(args);
    await until("the held turn", () => existsSync(file("begun")));
    const late = await turnq.submit({ id: "l3", agent: "m", lane: "shared", input: "x" });
    await late.result({ waitMs: 60_000 });
    await folder.write("go", "");
    const told = await running;
    expect([told.code, told.stderr]).toEqual([0, expect.stringContaining("3 turns of others wait in its lanes")]);
    expect(summaryOf(told)).toMatchObject({
      type: "summary",
      batch: "b3",
      turns: 1,
      attempts: 1,
      others: {
        turns: 3,
        batches: { a3: 2 },
        noBatch: 1,
        attempts: 3,
        usage: { inputTokens: 30, outputTokens: 15, costUsd: 0.75, known: "reported" },
        waited: { turns: 3, batches: { a3: 2 }, noBatch: 1 },
      },
    });
    await (await turnq.turn("far")).cancel();
  });
});
