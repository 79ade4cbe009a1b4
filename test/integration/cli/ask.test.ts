import { PassThrough } from "node:stream";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { askTerminal } from "../../../src/cli/ask.ts";
import { throwAwayRedis, type ThrowAwayRedis } from "../../redis.ts";
import { TextSink } from "../../unit/cli/text-sink.ts";
import { jsonLines, turnsFile } from "./cli-folder.ts";
import { InProcess, type InProcessOptions, type Told } from "./in-process.ts";

let redis: ThrowAwayRedis;
let folder: InProcess;
beforeAll(async () => {
  redis = await throwAwayRedis();
  folder = await InProcess.make(redis.url);
  await folder.write("one.jsonl", turnsFile([{ id: "a", input: "x" }]));
});
afterAll(async () => {
  await folder.remove();
  await redis.stop();
});

async function waiting(batch: string, turns: number): Promise<void> {
  const file = "one.jsonl";
  const { code } = await folder.run(["submit", file, "--agent", "echo", "--batch", batch, "--epochs", String(turns)]);
  expect(code).toBe(0);
}

const cancel = (batch: string, options: InProcessOptions, ...more: string[]): Promise<Told> =>
  folder.run(["cancel", batch, "--json", ...more], options);

async function settled(batch: string): Promise<unknown> {
  return jsonLines((await folder.run(["list", "--json"])).stdout).find((line) => line["batch"] === batch)?.["states"];
}

describe("U21: cancel BATCH on a terminal asks when more than 100 turns would end", () => {
  const QUESTION = "Cancel 101 turns of batch asked? [y/N] ";

  test("U21: it asks, and anything but a yes ends nothing; a yes ends them", async () => {
    await waiting("asked", 101);
    for (const input of ["n\n", "\n", "yesterday\n", ""]) {
      const { code, stdout, stderr } = await cancel("asked", { terminal: true, input });
      expect([code, stdout], input).toEqual([130, ""]);
      expect(stderr).toContain(QUESTION);
      expect(stderr).toContain("nothing was cancelled");
      expect(await settled("asked")).toMatchObject({ waiting: 101, settled: 0 });
    }
    const { code, stdout, stderr } = await cancel("asked", { terminal: true, input: "Yes\n" });
    expect(stderr).toContain(QUESTION);
    expect([code, jsonLines(stdout)]).toMatchObject([0, [{ batch: "asked", settled: 101 }]]);
  });

  test.each([
    ["with --yes", 101, { terminal: true }, ["--yes"]],
    ["in a pipe", 101, { terminal: false, input: "n\n" }, []],
    ["for 100 turns", 100, { terminal: true, input: "n\n" }, []],
  ] as const)("U21: it does not ask %s", async (name, turns, options, more) => {
    const batch = name.replaceAll(" ", "-");
    await waiting(batch, turns);
    const { code, stdout, stderr } = await cancel(batch, options, ...more);
    expect(stderr).not.toContain("Cancel ");
    expect([code, jsonLines(stdout)]).toMatchObject([0, [{ batch, settled: turns }]]);
  });

  test("U21: a question quotes nothing that drives the terminal, and the end of the input is a no", async () => {
    const [stdin, stderr] = [new PassThrough(), new TextSink({ isTTY: true })];
    const answer = askTerminal(stdin, stderr, "Really\u202E?");
    stdin.end();
    expect(await answer).toBe(false);
    expect(stderr.text).toBe("Really<U+202E>? [y/N] ");
  });
});
