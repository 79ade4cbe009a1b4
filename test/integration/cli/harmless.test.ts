import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { chosenCommand } from "../../../src/cli/program.ts";
import { throwAwayRedis, type ThrowAwayRedis } from "../../redis.ts";
import { turnsFile } from "./cli-folder.ts";
import { InProcess, type InProcessOptions, type Told } from "./in-process.ts";

/** Every character that turns the order of a line around, and what older terminals act on. */
const TURNING = "\u202A\u202B\u202C\u202D\u202E\u2066\u2067\u2068\u2069\u200E\u200F\u061C";
const EVIL = `x${TURNING}y\u001B[2Jz\u001B]0;title\u0007\u009B31m\u0000`;

let redis: ThrowAwayRedis;
let folder: InProcess;
beforeAll(async () => {
  redis = await throwAwayRedis();
  // The folder's name is shown, too.
  folder = await InProcess.make(redis.url, "turnq-\u202Ecli-");
  const failure = { code: "agent_error", message: EVIL, retryable: false };
  const script = (...actions: object[]): object => ({ type: "scripted", lane: "evil", script: actions });
  await folder.write("turnq.config.json", {
    agents: {
      says: script(
        { call: EVIL },
        { think: EVIL },
        { plan: [{ text: EVIL, status: "completed" }] },
        { tool: EVIL, args: { [EVIL]: EVIL }, result: EVIL },
        { say: EVIL },
      ),
      fails: script({ say: EVIL }, { tool: EVIL, open: true }, { fail: failure }),
      crashes: { ...script({ say: EVIL }, { crash: EVIL }), retry: { maxAttempts: 2, backoff: { delayMs: 1 } } },
      broken: { type: "module", module: `./none-${EVIL}.mjs` },
    },
  });
  await folder.write("turns.jsonl", turnsFile([{ id: "a", input: EVIL, metadata: { [EVIL]: EVIL }, target: EVIL }]));
  await folder.write("bad.jsonl", turnsFile([{ [EVIL]: 1 }, { input: "x", agent: EVIL }, { input: 1, id: EVIL }]));
});
afterAll(async () => {
  await folder.remove();
  await redis.stop();
});

const AGENTS = ["--agent", "says", "--agent", "fails", "--agent", "crashes"];

interface Typed {
  readonly argv: readonly string[];
  readonly options?: InProcessOptions;
  readonly code: number;
}

const well = (...argv: string[]): Typed => ({ argv, code: 0 });
const wrong = (...argv: string[]): Typed => ({ argv, code: 2 });
const until = (endAfter: string, argv: readonly string[], code: number): Typed => ({
  argv,
  options: { endAfter },
  code,
});

/** By command: what is typed, in this order, so that each of its views is shown. */
const typed = (turns: string, bad: string): Readonly<Record<string, readonly Typed[]>> => ({
  run: [
    well("run", turns, ...AGENTS, "--batch", "b", "--expect", "equals"),
    wrong("run", bad, "--agent", "says"),
    wrong("run", turns, "--agent", "broken"),
    wrong("run", EVIL),
  ],
  submit: [well("submit", turns, ...AGENTS, "--batch", "c"), wrong("submit", bad, "--agent", "says")],
  work: [until("taking turns of", ["work", "--agent", "noop"], 130)],
  watch: [well("watch", "b"), wrong("watch", EVIL)],
  list: [well("list"), wrong("list", "--config", EVIL)],
  results: [well("results", "b", "--out", "r.jsonl"), wrong("results", EVIL)],
  show: [
    well("show", "b:a:says:1"),
    well("show", "b:a:fails:1"),
    well("show", "b:a:crashes:1"),
    well("show", "c:a:says:1"),
    wrong("show", EVIL),
  ],
  events: [well("events", "b:a:says:1"), well("events", "b:a:fails:1"), wrong("events", EVIL)],
  cancel: [well("cancel", "c", "--reason", EVIL), wrong("cancel", EVIL)],
  retry: [
    well("retry", "b", "--failed"),
    well("show", "b:a:fails:1"),
    well("cancel", "b", "--reason", EVIL),
    well("show", "b:a:fails:1"),
    wrong("retry", EVIL, "--failed"),
  ],
  agents: [well("agents")],
  redis: [wrong("redis", EVIL)],
  simulate: [until("Ctrl-C ends it", ["simulate"], 0), wrong("simulate", "--answers", EVIL)],
  doctor: [
    { argv: ["doctor"], code: 1 },
    { argv: ["doctor", "--config", EVIL], code: 1 },
  ],
});
const COMMANDS = Object.keys(typed("", ""));

/** What was said without the log, which is JSON in a pipe. */
function forPeople({ stdout, stderr }: Told): string {
  return `${stdout}${stderr.replaceAll(/^\{.*\}\n/gm, "")}`;
}

async function commandNames(): Promise<string[]> {
  let help = "";
  await chosenCommand(["--help"], { out: (text) => (help += text), err: () => undefined }).catch(() => undefined);
  const [, list = ""] = /\nCommands:\n([\s\S]*?)\n\n/.exec(help) ?? [];
  return [...list.matchAll(/^ {2}(\w+)/gm)].map(([, name = ""]) => name).filter((name) => name !== "help");
}

describe("U09: no view, table, warning or error turns a line around", () => {
  test("U09: the walk has every command", async () => {
    expect(COMMANDS.toSorted()).toEqual((await commandNames()).toSorted());
  });

  const told: Told[] = [];
  test.each(COMMANDS)("U09: %s", async (command) => {
    const all = typed("turns.jsonl", "bad.jsonl")[command] ?? [];
    for (const { argv, options, code } of [...all, wrong(command, `--${EVIL}`), wrong(command, "--agent", EVIL)]) {
      const piped = await folder.run(argv, options);
      // What this program paints with, a terminal's cursor apart, is all that is left of control characters.
      expect(forPeople(piped), argv.join(" ")).not.toMatch(/[^\P{Cc}\n\t]|\p{Bidi_Control}/u);
      expect(piped.code, `${argv.join(" ")}: ${piped.stderr}`).toBe(code);
      told.push(piped);
      const shown = await folder.run(argv, { ...options, terminal: true });
      const painted = `${shown.stdout}${shown.stderr}`;
      expect(painted, argv.join(" ")).not.toMatch(/\p{Bidi_Control}/u);
      for (const control of ["\u0007", "\u009B", "\u001B[2J"]) expect(painted).not.toContain(control);
    }
  });

  test("U09: they are shown as their code", () => {
    const all = told.map(({ stdout, stderr }) => `${stdout}${stderr}`).join("\n");
    expect(all).toContain(
      `x<U+202A><U+202B><U+202C><U+202D><U+202E><U+2066><U+2067><U+2068><U+2069><U+200E><U+200F><U+061C>y`,
    );
  });

  test("U09: files and JSON stay as they are", async () => {
    for (const argv of [
      ["results", "b"],
      ["show", "b:a:says:1", "--json"],
      ["events", "b:a:says:1", "--json"],
    ])
      expect((await folder.run(argv)).stdout, argv.join(" ")).toContain(TURNING);
    expect(await folder.read("r.jsonl")).toContain(TURNING);
    expect((await folder.run(["results", "b", "--format", "csv"])).stdout).toContain(TURNING);
  });

  test("U09: nothing but Output prints", () => {
    const files = readdirSync("src/cli", { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".ts"));
    const printing = files.filter((name) =>
      /console\.|process\.std(out|err)|std(out|err)\.write/.test(readFileSync(join("src/cli", name), "utf8")),
    );
    expect(printing).toEqual(["main.ts"]);
  });
});
