import { stripVTControlCharacters } from "node:util";
import fc from "fast-check";
import pc from "picocolors";
import { expect, test } from "vitest";
import type { ResultLine } from "../../../src/batch/result-line.ts";
import type { TurnRecord } from "../../../src/domain/turn-record.ts";
import { addUsage, type Usage } from "../../../src/domain/usage.ts";
import { ResultCollector } from "../../../src/cli/result-collector.ts";
import { harmless } from "../../../src/cli/harmless.ts";
import { dollars, duration, percent, shortNumber, usageDetails, usageText } from "../../../src/cli/quantity-text.ts";
import { failureLines, summaryLine, summaryTable } from "../../../src/cli/summary-view.ts";
import { plainTable } from "../../../src/cli/plain-table.ts";
import { lateUsageOf, turnText, type TurnStory } from "../../../src/cli/turn-view.ts";
import { checkNode } from "../../../src/cli/commands/doctor.ts";
import { storedRequest } from "../../agents.ts";

const TWICE: Usage = { inputTokens: 20, outputTokens: 4, modelCalls: 0, toolCalls: 2, known: "reported" };
const PLAIN = pc.createColors(false);
const USAGE: Usage = { inputTokens: 10, outputTokens: 2, modelCalls: 0, toolCalls: 1, known: "reported" };

function line(turn: string, more: Partial<ResultLine> = {}): ResultLine {
  return {
    type: "result",
    turn,
    batch: "b",
    sample: turn,
    epoch: 1,
    agent: "echo",
    score: null,
    v: 1,
    generation: 1,
    output: "",
    usage: USAGE,
    ok: true,
    status: "completed",
    stepsUsed: 1,
    cancelled: false,
    budgetExhausted: false,
    planSteps: [],
    attempts: [{ attempt: 1, status: "completed", usage: USAGE, worker: "w", startedAt: 0, endedAt: 1500 }],
    wastedUsage: { modelCalls: 0, toolCalls: 0, known: "reported" },
    endedAt: 1500,
    durationMs: 1500,
    queuedMs: 0,
    ...more,
  };
}

const CRASHED = { attempt: 1, status: "crashed", usage: USAGE, worker: "w", startedAt: 0, endedAt: 1000 } as const;
const ANSWERED = {
  attempt: 2,
  status: "completed",
  usage: USAGE,
  worker: "w",
  startedAt: 1000,
  endedAt: 3000,
} as const;

test.each([
  ["partial, its cost unknown", { known: "partial" }, "≥ 12"],
  ["unknown", { known: "unknown" }, "unknown"],
  ["reported with its cost", { known: "reported", costUsd: 0.01 }, "$0.0100"],
  ["a very small cost", { known: "reported", costUsd: 0.000004 }, "$0.000004"],
  ["reported without a cost", { known: "reported" }, "12"],
] as const)("U15: what an agent with a price wasted is never rounded to nothing: %s", (_, spent, cell) => {
  const collector = new ResultCollector("b");
  const wasted = spent.known === "unknown" ? { modelCalls: 0, toolCalls: 0 } : USAGE;
  const [crashed, answered] = [
    { ...wasted, ...spent },
    { ...USAGE, costUsd: 0.5 },
  ];
  const attempts = [
    { ...CRASHED, usage: crashed },
    { ...ANSWERED, usage: answered },
  ];
  collector.accept(line("1", { usage: addUsage(crashed, answered), attempts }));
  const table = summaryTable(collector.summary({ turns: 1, durationMs: 1 }), PLAIN);
  expect(table.endsWith(` ${cell}`), table).toBe(true);
});

test("the table has a row for each agent and fits 80 columns", () => {
  const collector = new ResultCollector("b");
  const passed = { value: 1, passed: true, checks: [] };
  collector.accept(line("1", { score: passed }));
  collector.accept(
    line("2", { ok: false, error: "no", status: "failed", score: { ...passed, value: 0, passed: false } }),
  );
  collector.accept(line("3", { agent: "shaky", usage: { ...TWICE, known: "partial" }, attempts: [CRASHED, ANSWERED] }));
  const summary = collector.summary({ turns: 4, durationMs: 2000 });
  expect(summaryTable(summary, PLAIN)).toBe(
    [
      "agent  turns  ok  failed     passed (95 %)  attempts  crashed  tokens  cost  wasted",
      "echo       2   1       1  1/2 50 % [9, 91]         2        0      24     -      12",
      "shaky      1   1       0      not measured         2        1    ≥ 24     -    ≥ 12",
    ].join("\n"),
  );
  expect(summaryLine(summary)).toBe("4 turns in 2.0s: 2 ok, 1 failed, 1 not settled; usage ≥ 48 tokens");
});

test("why turns failed: a line for each code, the most frequent first, and no text that drives the terminal", () => {
  const collector = new ResultCollector("b");
  const failed = (turn: string, code: "timeout" | "agent_error", message: string): void => {
    const failure = { code, message, retryable: false };
    collector.accept(line(turn, { ok: false, error: message, status: "failed", failure }));
  };
  failed("1", "agent_error", "bad\u001B[2J\nanswer");
  failed("2", "timeout", "after 10 ms");
  failed("3", "timeout", "x".repeat(10_000));
  collector.accept(line("4", { ok: false, error: "late", status: "expired", attempts: [] }));
  collector.accept(line("5", { ok: false, error: "no more", status: "cancelled", cancelled: true, attempts: [] }));
  collector.accept(line("6"));
  const summary = collector.summary({ turns: 10, retired: 4, durationMs: 1 });
  expect(failureLines(summary.failures)).toEqual([
    "timeout 2: after 10 ms (first: 2)",
    expect.stringMatching(/^agent_error 1: bad[^\p{Cc}]*answer \(first: 1\)$/u),
    "expired 1: late (first: 4)",
  ]);
  expect(summary.failures).toMatchObject({ timeout: { turns: 2, first: "2" } });
  expect([summary.turns, summary.retired]).toEqual([6, 4]);
  expect(summaryLine(summary)).toContain("1 ok, 3 failed, 1 cancelled, 1 expired");
  expect(summaryLine(summary)).toContain("4 more removed by retention");
});

test("each cell counts once, and the turn to look at first is one that crashed and went on", () => {
  const collector = new ResultCollector("b");
  expect(collector.worthALook).toBeUndefined();
  expect(collector.accept(line("fine"))).toBe(true);
  expect(collector.accept(line("fine"))).toBe(false);
  expect(collector.worthALook).toBe("fine");
  collector.accept(line("bad", { ok: false, error: "no", status: "failed" }));
  expect(collector.worthALook).toBe("bad");
  collector.accept(line("crashed", { attempts: [CRASHED, ANSWERED] }));
  expect(collector.worthALook).toBe("crashed");
  expect(collector.summary({ turns: 3 }).settled).toBe(3);
});

test("amounts in words: what nobody reported is unknown, a part of it a floor", () => {
  expect(usageText({ modelCalls: 0, toolCalls: 0, known: "unknown" })).toBe("unknown");
  expect(usageText({ modelCalls: 0, toolCalls: 0, known: "partial" })).toBe("unknown");
  expect(usageText({ modelCalls: 0, toolCalls: 0, known: "reported" })).toBe("none");
  expect(usageText({ ...USAGE, costUsd: 0.5, known: "partial" })).toBe("≥ 12 tokens, ≥ $0.5000");
  expect(usageDetails({ ...USAGE, known: "partial" })).toBe(
    "10 input tokens, 2 output tokens, 1 tool calls (a floor: not all of it was reported)",
  );
  expect([0, 999, 12_345, 123_456, 7_654_321].map(shortNumber)).toEqual(["0", "999", "12.3k", "123k", "7.7M"]);
  expect([0, 450, 1500, 61_000].map(duration)).toEqual(["0 ms", "450 ms", "1.5s", "1m 1s"]);
  expect([0, 0.015, 0.5, 1].map(percent)).toEqual(["0 %", "1.5 %", "50 %", "100 %"]);
});

test("U15: money is never rounded to nothing", () => {
  expect([0, 0.5, 1, 12.345, 0.0001, 0.00004, 0.0000123].map((cost) => dollars(cost))).toEqual([
    "$0.0000",
    "$0.5000",
    "$1.00",
    "$12.35",
    "$0.0001",
    "$0.00004",
    "$0.000012",
  ]);
  expect(usageDetails({ ...USAGE, costUsd: 0.000_000_12 })).toContain("$0.00000012");
  fc.assert(
    fc.property(fc.double({ min: Number.MIN_VALUE, max: 10, noNaN: true }), (cost) => {
      expect(dollars(cost)).toMatch(/[1-9]/);
    }),
  );
});

function story(output: string): TurnStory {
  const record = { output, steps: [], messages: [] } as unknown as TurnRecord;
  return {
    row: {
      id: "t1",
      lane: "a",
      agent: "a",
      state: "running",
      generation: 1,
      attempt: 2,
      seq: 0,
      job: "t1",
      hash: "",
      preview: "",
      submittedAt: 0,
    },
    request: storedRequest({ input: output }),
    attempts: [
      {
        ...CRASHED,
        crashed: true,
        steps: 1,
        failure: { code: "agent_crash", message: output, retryable: true },
        record,
      },
    ],
    shown: 1,
    earlier: [],
    running: { attempt: 2, worker: "w2", startedAt: 0, iteration: 1 },
  };
}

test("a turn that runs: the attempts that ended and the one that is open", () => {
  const text = turnText(story("half"), PLAIN);
  expect(text).toMatch(/attempt 1 {2}crashed {2}1\.0s\n {2}1970-01-01T00:00:00\.000Z on w\n {2}agent_crash: half\n/);
  expect(text).toContain("  partial output:\n    half\n");
  expect(text).toContain("attempt 2  running since 1970-01-01T00:00:00.000Z on w2");
  expect(text).toContain("no Result yet");
});

test("a cancel shows how far it has come: asked for, told to stop, killed", () => {
  const base = story("x");
  const cancel = { reason: "wrong\nprompt", by: "turnq cancel", phase: "requested", requestedAt: 0 } as const;
  const told = (more: object): string =>
    turnText({ ...base, row: { ...base.row, cancel: { ...cancel, ...more } } }, PLAIN);
  expect(told({})).toContain("\ncancel requested 1970-01-01T00:00:00.000Z by turnq cancel: wrong prompt\n");
  expect(told({ phase: "killed", stoppingAt: 1, killedAt: 1000 })).toContain(
    "\n  told to stop 1970-01-01T00:00:00.001Z\n  killed 1970-01-01T00:00:01.000Z\n",
  );
  expect(turnText(base, PLAIN)).not.toContain("cancel");
});

test("a turn that failed: its last attempt's partial output and transcript, since the Result has neither", () => {
  const running = story("half");
  const record = { output: "half", steps: [], messages: [{ role: "user", content: "do it" }] } as unknown as TurnRecord;
  const failed = { ...CRASHED, attempt: 1, status: "failed", crashed: false, steps: 1, record } as const;
  const { turn: id, score: _score, ...facts } = line("t1", { ok: false, error: "no", status: "failed", output: "" });
  const result = { ...facts, turn: id, messages: [], attempts: [failed] };
  const row = { ...running.row, state: "settled", outcome: "failed" } as const;
  const text = turnText({ ...running, row, attempts: [failed], running: undefined, result }, PLAIN);
  expect(text).toContain("  partial output:\n    half\n");
  expect(text).toContain("transcript\n  user\n    do it\n");
  expect(text).toContain("result  not ok (failed)\n  no");
});

test("a turn that was retried: what was before, and what became known after the Result", () => {
  const base = story("x");
  const late = { ...USAGE, inputTokens: 7, outputTokens: 0, toolCalls: 0 };
  const attempt = { ...ANSWERED, crashed: false, steps: 1, late };
  const { score: _score, ...facts } = line("t1", { generation: 2, attempts: [ANSWERED] });
  const result = { ...facts, messages: [] };
  const lateUsage = lateUsageOf(result, [{ ...CRASHED, crashed: true, steps: 1, late }, attempt]);
  expect(lateUsage).toMatchObject({ inputTokens: 7 });
  expect(
    lateUsageOf({ ...result, attempts: [{ ...ANSWERED, usage: { ...USAGE, inputTokens: 17 } }] }, [attempt]),
  ).toBeUndefined();
  const text = turnText(
    {
      ...base,
      row: { ...base.row, generation: 2, state: "settled", outcome: "ok" },
      shown: 2,
      attempts: [attempt],
      running: undefined,
      result,
      lateUsage,
      earlier: [{ generation: 1, outcome: "failed", status: "crashed", error: "boom\nbang" }],
    },
    PLAIN,
  );
  expect(text).toContain("generation 2 of 2");
  expect(text).toContain("earlier  --generation N shows one\n  generation 1  failed (crashed): boom bang\n");
  expect(text).toContain("  known after the Result: 7 input tokens\n");
});

test("U09: characters that turn a line around are shown as their code, as other control characters are", () => {
  expect(harmless("a\u202Eb\u2066c\u061Cd\u200Fe\u0007f\r\ng")).toBe(
    "a<U+202E>b<U+2066>c<U+061C>d<U+200F>e<U+0007>f\ng",
  );
  expect(plainTable(["a", "b"], [["x\u202Ey", "1"]], PLAIN)).toBe("a           b\nx<U+202E>y  1");
});

test("text of agents cannot drive the terminal", () => {
  const evil = "\u001B[2Jx\u001B]0;title\u0007y\rz\u0000\u009B31m\n\tkept";
  expect(harmless(evil)).not.toMatch(/[^\P{Cc}\n\t]/u);
  expect(harmless("a\n\tb")).toBe("a\n\tb");
  const text = turnText(story(evil), PLAIN);
  expect(stripVTControlCharacters(text)).toBe(text);
  expect(text).not.toMatch(/[^\P{Cc}\n\t]/u);
});

test("long output is cut, and it is said how much there is", () => {
  const text = turnText(story("x".repeat(10_000)), PLAIN);
  expect(text).toContain("(cut; --json shows all 10000 characters)");
  expect(text.length).toBeLessThan(14_000);
});

test("an old Node is found", () => {
  expect(["18.19.0", "20.18.9", "20.19.0", "22.1.0"].map((version) => checkNode(version).ok)).toEqual([
    false,
    false,
    true,
    true,
  ]);
});
