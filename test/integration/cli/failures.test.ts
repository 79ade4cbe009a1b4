import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { throwAwayRedis, type ThrowAwayRedis } from "../../redis.ts";
import { jsonLines, turnsFile } from "./cli-folder.ts";
import { InProcess, type Told } from "./in-process.ts";

let redis: ThrowAwayRedis;
let folder: InProcess;
beforeAll(async () => {
  redis = await throwAwayRedis();
  folder = await InProcess.make(redis.url);
  const failing = (code: string, message: string): object => ({
    type: "scripted",
    lane: "one",
    script: [{ fail: { code, message, retryable: false } }],
  });
  const once = { maxAttempts: 1 };
  await folder.write("turnq.config.json", {
    agents: {
      dead: { type: "chat", lane: "one", baseUrl: "http://127.0.0.1:9/v1", model: "m", retry: once },
      keyless: failing("auth", `the provider answered 401: \u202Ebad\nkey ${"x".repeat(10_000)}`),
      unknown: failing("invalid_request", "there is no model m"),
    },
  });
  await folder.write("turns.jsonl", turnsFile(["1", "2", "3"].map((id) => ({ id, input: "x" }))));
});
afterAll(async () => {
  await folder.remove();
  await redis.stop();
});

const run = (batch: string, agents: readonly string[], ...more: string[]): Promise<Told> =>
  folder.run(["run", "turns.jsonl", "--batch", batch, ...agents.flatMap((agent) => ["--agent", agent]), ...more]);

describe("U06: a run of which not one turn ended well does not end as one that is done", () => {
  test.each(["dead", "keyless", "unknown"])("U06: %s: exit 1 without --fail-on-error", async (agent) => {
    const { code, stderr } = await run(agent, [agent]);
    expect(code).toBe(1);
    expect(stderr).toContain("\nnot one turn ended well\n");
    // What has failed before has failed still when it is only looked at again.
    expect((await run(agent, [agent], "--quiet", "--json")).code).toBe(1);
  });

  test("U06: the end names the failures by code, each with count and one message, and one turn that ended well is enough", async () => {
    const { code, stdout } = await run("mixed", ["keyless", "unknown", "noop"], "--limit", "2");
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /\n {2}auth 2: the provider answered 401: <U\+202E>bad key x+… \(first: mixed:\d:keyless:1\)\n/,
    );
    expect(stdout).toMatch(/\n {2}invalid_request 2: there is no model m \(first: mixed:\d:unknown:1\)\n/);
    expect(Math.max(...stdout.split("\n").map((line) => line.length))).toBeLessThan(250);
  });

  test("U06: so do watch and results; with --json the summary and the end of watch have them as a field", async () => {
    const failures = {
      auth: {
        turns: 2,
        first: expect.stringMatching(/^mixed:\d:keyless:1$/) as string,
        message: expect.stringMatching(/^the provider .{200,286}…$/s) as string,
      },
      invalid_request: { turns: 2, message: "there is no model m" },
    };
    const again = await run("mixed", ["keyless", "unknown", "noop"], "--limit", "2", "--json");
    expect(jsonLines(again.stdout).at(-1)).toMatchObject({ type: "summary", failures });
    expect(jsonLines((await folder.run(["watch", "mixed", "--json"])).stdout).at(-1)).toMatchObject({
      type: "batch",
      failures,
    });
    for (const told of [(await folder.run(["watch", "mixed"])).stdout, (await folder.run(["results", "mixed"])).stderr])
      expect(told).toMatch(/auth 2: the provider.*\n.*invalid_request 2: there is no model m/);
  });
});
