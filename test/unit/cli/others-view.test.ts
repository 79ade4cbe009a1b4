import { describe, expect, test } from "vitest";
import { OthersTally } from "../../../src/batch/others-tally.ts";
import { Summary } from "../../../src/batch/summary.ts";
import type { Usage } from "../../../src/domain/usage.ts";
import type { OtherTurns } from "../../../src/queue/other-turns.ts";
import { cancelLines, countedOthers, othersLine, waitingText } from "../../../src/cli/others-view.ts";
import { CommandLines } from "../../../src/cli/type-next.ts";

const USAGE: Usage = { inputTokens: 10, costUsd: 0.000_001, modelCalls: 1, toolCalls: 0, known: "reported" };
const NOBODY: OtherTurns = { turns: 0, batches: new Map(), noBatch: 0, named: [], unnamed: 0, exact: true };
const batches = new Map(Array.from({ length: 7 }, (_, n) => [`b${n}`, 2000 - n] as const));
const lines = new CommandLines("turnq");

describe("U05: others in words", () => {
  test("U05: one turn, many batches, and what was not looked at one by one", () => {
    expect(waitingText({ ...NOBODY, turns: 1, noBatch: 1 })).toBe(
      "1 turn of others waits in its lanes, and is run and paid for too: 1 of no batch",
    );
    const many: OtherTurns = { ...NOBODY, turns: 14_000, batches, unnamed: 21, exact: false };
    expect(waitingText(many)).toBe(
      "14,000 turns of others wait in its lanes, and those of its agents are run and paid for too: 2,000 of batch b0, " +
        "1,999 of batch b1, 1,998 of batch b2, 1,997 of batch b3, 1,996 of batch b4, 3,989 of 2 more batches, " +
        "21 of other batches or none",
    );
    expect(cancelLines(many, lines)).toEqual([
      ...[0, 1, 2, 3, 4].map((n) => `turnq cancel b${n}`),
      "and so each batch more that is open: turnq list",
    ]);
    expect(cancelLines({ ...NOBODY, noBatch: 2, named: ["l 1"] }, lines)).toEqual([
      "turnq cancel 'l 1'",
      "and so each without a batch, by its id: turnq cancel TURN",
    ]);
  });

  test("U05: a second attempt is no second turn, late usage no attempt, and the memory is bounded", () => {
    const tally = new OthersTally();
    const attempt = { batch: "x", usage: USAGE, first: true, late: false };
    tally.add(attempt);
    tally.add({ ...attempt, first: false, usage: { ...USAGE, known: "partial" } });
    tally.add({ ...attempt, first: false, late: true });
    const twice = tally.others(countedOthers(NOBODY));
    expect(twice).toMatchObject({
      turns: 1,
      attempts: 2,
      batches: { x: 1 },
      usage: { inputTokens: 30, known: "partial" },
    });
    expect(twice === undefined ? "" : othersLine(twice)).toBe(
      "run for others too: 1 turn in 2 attempts, 1 of batch x; usage ≥ 30 tokens, ≥ $0.000003",
    );
    for (let n = 0; n < 1000; n += 1) tally.add({ ...attempt, batch: `b${n}` });
    const all = tally.others(countedOthers(NOBODY));
    expect(all).toMatchObject({ turns: 1001, unnamed: 901 });
    expect(Object.keys(all?.batches ?? {})).toHaveLength(100);
    expect(Summary.shape.others.parse(all)).toEqual(all);
    expect(new OthersTally().others(countedOthers(NOBODY))).toBeUndefined();
  });
});
