import { readFileSync } from "node:fs";
import { describe, expect, it, test } from "vitest";
import { chosenCommand } from "../../src/cli/program.ts";
import { ConfigAgent, ConfigFile, LaneEntry, RetentionEntry } from "../../src/config.ts";
import { FIRST_STATES, TRANSITIONS, TurnState } from "../../src/domain/lifecycle.ts";
import { Backoff, LimitsInput, RetryInput } from "../../src/domain/limits.ts";
import { StopReason } from "../../src/domain/stop-reason.ts";
import { EventBody } from "../../src/domain/turn-event.ts";
import { TurnRequest } from "../../src/domain/turn-request.ts";
import { AttemptSummary, TurnResult, TurnStatus } from "../../src/domain/turn-result.ts";
import { Usage } from "../../src/domain/usage.ts";
import { KIND, STORE_KEYS, cancelChannel, sessionLaneKey, settledChannel } from "../../src/ledger/keys.ts";

/** The text of a page under the heading that begins so, up to the next of that level; the whole page without one. */
function sectionOf(page: string, heading?: string): string {
  const text = readFileSync(new URL(`../../docs/${page}`, import.meta.url), "utf8");
  if (heading === undefined) return text;
  const level = /^#+/.exec(heading)?.[0] ?? "##";
  const from = text.search(new RegExp(`^${heading}(?: .*)?$`, "m"));
  if (from < 0) return "";
  const after = text.slice(text.indexOf("\n", from) + 1);
  const end = after.search(new RegExp(`^#{1,${level.length}} `, "m"));
  return end < 0 ? after : after.slice(0, end);
}

/** The words in backticks in the first cells of a section's tables. */
function firstCells(section: string): string[] {
  const cells = [...section.matchAll(/^\| (`[^|]*) \|/gm)].map(([, cell = ""]) => cell);
  return cells.flatMap((cell) => [...cell.matchAll(/`([^`]+)`/g)].map(([, word = ""]) => word));
}

const sorted = (words: Iterable<string>): string[] => [...new Set(words)].toSorted();
const missing = (section: string, words: readonly string[]): string[] =>
  words.filter((word) => !section.includes(`\`${word}\``));

describe("docs/config.md", () => {
  const everyType = ["type", "lane", "limits", "retry"];

  it("lists the keys of every type of agent, and no other", () => {
    for (const { shape } of ConfigAgent.options) {
      const type = shape.type.value;
      if (type === "echo" || type === "noop" || type === "scripted") continue;
      const own = Object.keys(shape).filter((key) => !everyType.includes(key));
      expect([type, ...sorted(firstCells(sectionOf("config.md", `### ${type}`)))]).toEqual([type, ...sorted(own)]);
    }
    expect(
      missing(
        sectionOf("config.md"),
        ConfigAgent.options
          .map(({ shape }) => shape.type.value)
          .filter((type) => ["echo", "noop", "scripted"].includes(type)),
      ),
    ).toEqual([]);
  });

  it("lists the keys at the top, of lanes and of retention", () => {
    expect(missing(sectionOf("config.md"), Object.keys(ConfigFile.shape))).toEqual([]);
    expect(firstCells(sectionOf("config.md", "## Lanes"))).toEqual(Object.keys(LaneEntry.shape));
    expect(firstCells(sectionOf("config.md", "## Retention"))).toEqual(Object.keys(RetentionEntry.shape));
  });

  it("lists the variables that config.ts reads", () => {
    const source = readFileSync(new URL("../../src/config.ts", import.meta.url), "utf8");
    const read = [...source.matchAll(/(?:env\[|text\()"([A-Z_]+)"/g)].map(([, name = ""]) => name);
    const documented = firstCells(sectionOf("config.md", "## The environment"));
    expect(sorted(documented)).toEqual(sorted(read.filter((name) => name !== "PATH")));
  });
});

describe("docs/reference.md", () => {
  it("lists the keys of a request, of limits and of retry rules", () => {
    expect(sorted(firstCells(sectionOf("reference.md", "## A turn request")))).toEqual(
      sorted(Object.keys(TurnRequest.shape)),
    );
    expect(firstCells(sectionOf("reference.md", "## Limits"))).toEqual(Object.keys(LimitsInput.shape));
    expect(sorted(firstCells(sectionOf("reference.md", "## Retry")))).toEqual(sorted(Object.keys(RetryInput.shape)));
    expect(missing(sectionOf("reference.md", "## Retry"), Object.keys(Backoff.shape))).toEqual([]);
  });

  it("lists the fields of a Result, its statuses, stop reasons, usage and states", () => {
    const result = sectionOf("reference.md", "## A Result");
    expect(sorted(firstCells(result))).toEqual(sorted(Object.keys(TurnResult.shape)));
    expect(missing(result, [...TurnStatus.options, ...StopReason.options])).toEqual([]);
    expect(missing(result.replaceAll("?`", "`"), Object.keys(AttemptSummary.shape))).toEqual([]);
    const usage = sectionOf("reference.md", "## Usage");
    expect(missing(usage, [...Object.keys(Usage.shape), ...Usage.shape.known.options])).toEqual([]);
    expect(missing(sectionOf("reference.md", "## States"), TurnState.options)).toEqual([]);
  });
});

test("docs/events.md lists every type of event with its fields", () => {
  const rows = [...sectionOf("events.md").matchAll(/^\| `(\w+)` \| ([^|]*) \|/gm)];
  const documented = rows.map(([, type, fields = ""]) => [
    type,
    [...fields.matchAll(/`(\w+)\??`/g)].map((word) => word[1]),
  ]);
  const defined = EventBody.options.map(({ shape: { type, ...fields } }) => [
    type.value,
    Object.keys(fields).filter((field) => field !== "threadId" && field !== "parentThreadId"),
  ]);
  expect(Object.fromEntries(documented.filter(([type]) => type !== "seq" && type !== "at"))).toEqual(
    Object.fromEntries(defined),
  );
});

describe("docs/lifecycle.md", () => {
  const table = sectionOf("lifecycle.md", "## The table");
  const words = (cell: string): string[] => [...cell.matchAll(/`(\w+)`/g)].map(([, word = ""]) => word);

  it("has the transition table of the code", () => {
    const [heading, , ...rows] = table.split("\n").filter((line) => line.startsWith("|"));
    const moves = words(heading ?? "");
    const documented = rows.map((row) => {
      const [from = "", ...cells] = row.split("|").slice(1, -1).map(words);
      return [from[0], Object.fromEntries(cells.flatMap((to, i) => (to.length === 0 ? [] : [[moves[i], to]])))];
    });
    expect(Object.fromEntries(documented)).toEqual(TRANSITIONS);
    expect(sorted(firstCells(sectionOf("lifecycle.md", "## The moves")))).toEqual(sorted(moves));
  });

  it("names the states that a turn is submitted into", () => {
    expect(sorted(words(table.split("\n\nA turn is submitted into")[1] ?? ""))).toEqual(sorted(FIRST_STATES));
  });
});

test("docs/storage.md lists every key and channel", () => {
  const page = sectionOf("storage.md");
  const ofLane = firstCells(sectionOf("storage.md", "## Keys of a lane")).map((key) =>
    key.replace(/[A-Z:]+$/, (end) => (end.startsWith(":") ? ":" : "")),
  );
  expect(sorted(ofLane)).toEqual(sorted(Object.values(KIND)));
  const ofStore = firstCells(sectionOf("storage.md", "## Keys of the store"));
  expect(sorted(ofStore)).toEqual(sorted([...Object.values(STORE_KEYS), sessionLaneKey("SESSION")]));
  expect(missing(page, [settledChannel("LANE"), cancelChannel("LANE")])).toEqual([]);
});

/** What `--help` says of a command; of the program itself for "". */
async function helpOf(command: string): Promise<string> {
  let help = "";
  const say = (text: string): void => void (help += text);
  const argv = command === "" ? ["--help"] : [command, "--help"];
  await chosenCommand(argv, { out: say, err: say }).catch(() => undefined);
  return help;
}

async function commandsOfProgram(): Promise<string[]> {
  const [, list = ""] = /\nCommands:\n([\s\S]*?)\n\n/.exec(await helpOf("")) ?? [];
  return [...list.matchAll(/^ {2}(\w+)/gm)].flatMap(([, name = ""]) => (name === "help" ? [] : [name]));
}

const optionsIn = (text: string): string[] => [...text.matchAll(/--[a-z][a-z-]*/g)].map(([option]) => option);

describe("docs/commands.md", () => {
  it("has every command, each with exactly its options", async () => {
    const commands = await commandsOfProgram();
    const headings = [...sectionOf("commands.md").matchAll(/^## turnq (\w+)/gm)].map(([, name = ""]) => name);
    expect(sorted(headings)).toEqual(sorted(commands));
    for (const command of commands) {
      const [, options = ""] = /\nOptions:\n([\s\S]*?)\n\n/.exec(await helpOf(command)) ?? [];
      const own = [...options.matchAll(/^ {2}(?:-\w, )?(--[a-z-]+)/gm)].flatMap(([, name = ""]) =>
        name === "--help" ? [] : [name],
      );
      const said = /^Options: (.*(?:\n.+)*)/m.exec(sectionOf("commands.md", `## turnq ${command}`))?.[1] ?? "";
      expect([command, ...sorted(optionsIn(said))]).toEqual([command, ...sorted(own)]);
    }
  });

  it("says of every option what it means", async () => {
    const named = [...sectionOf("commands.md").matchAll(/^Options: (.*(?:\n.+)*)/gm)].flatMap(([, said = ""]) =>
      optionsIn(said),
    );
    const explained = firstCells(sectionOf("commands.md", "## Options")).flatMap(optionsIn);
    expect(sorted(explained)).toEqual(sorted(named));
  });
});
