import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { LONG } from "../long.ts";
import { chaosOptions } from "./options.ts";
import { planOf } from "./plan.ts";

const MAIN = fileURLToPath(new URL("main.ts", import.meta.url));
const JITI = dirname(createRequire(import.meta.url).resolve("jiti/package.json"));

interface Ended {
  readonly code: number | null;
  readonly line: Record<string, unknown>;
  readonly stderr: string;
}

function chaos(...args: string[]): Promise<Ended> {
  const register = pathToFileURL(join(JITI, "lib", "jiti-register.mjs")).href;
  const child = spawn(process.execPath, ["--import", register, MAIN, ...args], { stdio: ["ignore", "pipe", "pipe"] });
  let [stdout, stderr] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => {
      const last = stdout.trimEnd().split("\n").at(-1) ?? "";
      resolve({ code, stderr, line: last === "" ? {} : (JSON.parse(last) as Record<string, unknown>) });
    });
  });
}

test("the same seed and options give the same plan, another seed another one", () => {
  const plan = (seed: string) => planOf(chaosOptions(["node", MAIN, "--seed", seed, "--turns", "50"]));
  expect(plan("5")).toEqual(plan("5"));
  expect(plan("6").faults).not.toEqual(plan("5").faults);
  expect(plan("6").turns).not.toEqual(plan("5").turns);
});

/** What each run is like: as short as lets every fault happen, or as long as `npm run chaos` makes it. */
const RUN = LONG ? { seconds: 25, turns: 300, seeds: [20, 21, 22] } : { seconds: 9, turns: 110, seeds: [20] };

test.each(RUN.seeds)(
  "invariants 1 to 8, 10, 11, A02, C51: seconds under fire lose no turn, run none again, forget no token and leave nothing behind (seed %i)",
  async (seed) => {
    const args = ["--seconds", RUN.seconds, "--turns", RUN.turns, "--quick", "--seed", seed].map(String);
    const { code, line, stderr } = await chaos(...args);
    const { turns, settled, usageGapTokens, kills, redisKills, cuts, ...zero } = line;
    // What is wrong is told on stderr, with the folder in which the data is kept.
    expect(stderr.split("\n").filter((said) => /VIOLATION|Error/.test(said))).toEqual([]);
    expect(zero).toEqual({
      type: "chaos",
      seed,
      lost: 0,
      duplicated: 0,
      rerunAfterSettle: 0,
      usageOverTokens: 0,
      brokenSessions: 0,
      danglingToolCalls: 0,
      orphans: 0,
      leakedSlots: 0,
    });
    expect([turns, settled]).toEqual([RUN.turns, RUN.turns]);
    for (const count of [kills, redisKills, cuts]) expect(count).toBeGreaterThan(0);
    expect(usageGapTokens).toBeGreaterThanOrEqual(0);
    expect(code).toBe(0);
  },
  240_000,
);
