import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ResultLine, resultLine } from "../../../src/batch/result-line.ts";
import { SpendFold, sameUsage } from "../../../src/batch/spend.ts";
import { Summary, SummaryFold } from "../../../src/batch/summary.ts";
import { wilson } from "../../../src/batch/wilson.ts";
import type { AttemptStatus } from "../../../src/domain/turn-record.ts";
import type { TurnResult, TurnStatus } from "../../../src/domain/turn-result.ts";
import { outcomeOf } from "../../../src/domain/turn-result.ts";
import { NO_USAGE, UNKNOWN_USAGE, sumUsage, type Usage } from "../../../src/domain/usage.ts";
import { line, request, result } from "./result-lines.ts";

describe("Wilson's interval", () => {
  test("known values", () => {
    // 8 of 10 and 0 of 20, as the closed formula gives them.
    expect(wilson(8, 10)?.map((bound) => bound.toFixed(4))).toEqual(["0.4902", "0.9433"]);
    expect(wilson(0, 20)?.map((bound) => bound.toFixed(4))).toEqual(["0.0000", "0.1611"]);
    expect(wilson(20, 20)?.map((bound) => bound.toFixed(4))).toEqual(["0.8389", "1.0000"]);
    expect(wilson(0, 0)).toBeNull();
  });

  test("holds the rate, lies within 0 and 1, and is mirrored by the misses", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 1_000_000 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (scored, share) => {
          const passed = Math.round(scored * share);
          const [low, high] = wilson(passed, scored) ?? [Number.NaN, Number.NaN];
          expect(low).toBeGreaterThanOrEqual(0);
          expect(high).toBeLessThanOrEqual(1);
          expect(low).toBeLessThanOrEqual(passed / scored);
          expect(high).toBeGreaterThanOrEqual(passed / scored);
          expect(wilson(scored - passed, scored)?.[0]).toBeCloseTo(1 - high, 9);
        },
      ),
    );
  });
});

describe("result lines", () => {
  test("hold the cell, what was asked, the score and the turn's facts, and messages only when asked for", () => {
    const stored: TurnResult = {
      ...result(),
      messages: [{ role: "assistant", content: "18" }],
      score: null,
      elsewhere: { messages: 1 },
    };
    const plain = resultLine(request({ target: 18, metadata: { level: 3 } }), stored);
    expect(plain).toMatchObject({
      type: "result",
      turn: "b1:s1:echo:1",
      batch: "b1",
      sample: "s1",
      epoch: 1,
      agent: "echo",
      target: 18,
      metadata: { level: 3 },
      score: null,
    });
    expect(plain).not.toHaveProperty("messages");
    expect(plain).not.toHaveProperty("elsewhere");
    expect(ResultLine.parse(JSON.parse(JSON.stringify(plain)))).toEqual(plain);
    const whole = resultLine(request(), stored, { messages: stored.messages });
    expect(whole.messages).toEqual(stored.messages);
    expect(ResultLine.parse(JSON.parse(JSON.stringify(whole)))).toEqual(whole);
  });

  test("a Result without a score is scored, one with a score keeps it", () => {
    const asked = request({ target: "18", expect: [{ type: "equals" }] });
    expect(resultLine(asked, { ...result(), output: "18" }).score).toMatchObject({ passed: true });
    expect(resultLine(asked, { ...result(), output: "18", score: null }).score).toBeNull();
    expect(() => resultLine(request({ batch: undefined }), result())).toThrow("in no batch");
  });
});

describe("the summary", () => {
  const attempt = (status: AttemptStatus, usage = NO_USAGE) => ({
    attempt: 1,
    status,
    usage,
    worker: "w",
    startedAt: 0,
    endedAt: 1,
  });
  const passed = { value: 1, passed: true, checks: [] };
  const missed = { value: 0.5, passed: false, checks: [] };

  test("of nothing", () => {
    const summary = new SummaryFold("b1").summary({ turns: 0 });
    expect(Summary.parse(summary)).toEqual({
      type: "summary",
      batch: "b1",
      turns: 0,
      settled: 0,
      ok: 0,
      failed: 0,
      cancelled: 0,
      expired: 0,
      scored: 0,
      passed: 0,
      attempts: 0,
      crashedAttempts: 0,
      usage: NO_USAGE,
      wastedUsage: NO_USAGE,
      failures: {},
      durationMs: 0,
      byAgent: {},
    });
  });

  test("counts outcomes, scores, attempts and spend, in all and for each agent", () => {
    const fold = new SummaryFold("b1");
    const spent = { ...NO_USAGE, inputTokens: 10, modelCalls: 1 };
    fold.add(
      line({
        agent: "a",
        score: passed,
        usage: spent,
        attempts: [attempt("crashed"), attempt("completed")],
        wastedUsage: spent,
        startedAt: 100,
        endedAt: 900,
        durationMs: 50,
      }),
    );
    fold.add(
      line({
        agent: "a",
        score: missed,
        usage: { ...UNKNOWN_USAGE },
        attempts: [attempt("limit_reached")],
        status: "limit_reached",
        startedAt: 50,
        endedAt: 300,
        durationMs: 7,
      }),
    );
    fold.add(
      line({
        agent: "b",
        status: "timeout",
        ok: false,
        error: "x",
        score: missed,
        attempts: [attempt("timeout"), attempt("lost"), attempt("interrupted"), attempt("failed")],
      }),
    );
    fold.add(
      line({
        agent: "b",
        status: "cancelled",
        ok: false,
        error: "x",
        score: null,
        attempts: [],
        startedAt: undefined,
        endedAt: 1000,
      }),
    );
    fold.add(line({ agent: "b", status: "expired", ok: false, error: "x", score: null, attempts: [] }));
    const summary = fold.summary({ turns: 10 });
    expect(Summary.parse(summary)).toEqual(summary);
    expect(summary).toMatchObject({
      turns: 10,
      settled: 5,
      ok: 2,
      failed: 1,
      cancelled: 1,
      expired: 1,
      scored: 3,
      passed: 1,
      attempts: 7,
      crashedAttempts: 3,
    });
    expect(summary.usage).toMatchObject({ inputTokens: 10, known: "partial" });
    expect(summary.wastedUsage).toMatchObject({ inputTokens: 10 });
    expect(summary.durationMs).toBe(1000);
    expect(fold.summary({ turns: 10, durationMs: 5 }).durationMs).toBe(5);
    expect(summary.byAgent.a).toMatchObject({
      turns: 2,
      ok: 2,
      scored: 2,
      passed: 1,
      passRate: 0.5,
      interval: wilson(1, 2),
      durationMs: 57,
      crashedAttempts: 1,
    });
    expect(summary.byAgent.b).toMatchObject({
      turns: 3,
      failed: 1,
      cancelled: 1,
      expired: 1,
      scored: 1,
      passed: 0,
      passRate: 0,
      crashedAttempts: 2,
    });
    expect(Object.keys(summary.byAgent)).toEqual(["a", "b"]);
  });

  test("where nothing was measured there is no rate, and usage that nobody knows stays unknown", () => {
    const fold = new SummaryFold("b1");
    fold.add(line({ agent: "a", score: null, usage: UNKNOWN_USAGE, attempts: [attempt("completed", UNKNOWN_USAGE)] }));
    expect(fold.summary({ turns: 1 })).toMatchObject({
      usage: { known: "unknown" },
      wastedUsage: NO_USAGE,
      byAgent: { a: { passRate: null, interval: null } },
    });
  });

  test("spend of earlier generations, of open turns and late spend is in the totals, and the agents' add up to them", () => {
    const fold = new SummaryFold("b1");
    const used = (inputTokens: number, costUsd?: number): Usage => ({
      ...NO_USAGE,
      inputTokens,
      ...(costUsd === undefined ? {} : { costUsd }),
    });
    fold.add(line({ agent: "a", usage: used(5, 0.1), attempts: [attempt("completed", used(5, 0.1))] }));
    fold.add(
      line({
        agent: "b",
        ok: false,
        error: "x",
        status: "failed",
        attempts: [attempt("failed", used(2))],
        usage: used(2),
      }),
    );
    const own = { attempts: 2, crashedAttempts: 0, usage: used(7, 0.1) };
    expect(fold.accountsFor(own)).toBe(true);
    expect(fold.summary({ turns: 2, spend: own })).toMatchObject({
      attempts: 2,
      usage: used(7, 0.1),
      wastedUsage: used(2),
    });

    const spent = new SpendFold();
    spent.add("a", [
      { status: "timeout", usage: used(100, 0.2) },
      { status: "completed", usage: used(5, 0.1), late: used(1) },
    ]);
    spent.add("b", [{ status: "failed", usage: used(2) }]);
    spent.add("c", [{ status: "lost", usage: UNKNOWN_USAGE }]);
    const spend = {
      attempts: 4,
      crashedAttempts: 2,
      usage: { ...used(108, 0.3), known: "partial" as const },
    };
    expect(fold.accountsFor(spend)).toBe(false);
    const summary = fold.summary({ turns: 3, spend, spendByAgent: spent.byAgent });
    expect(Summary.parse(summary)).toEqual(summary);
    expect(summary).toMatchObject({ attempts: 4, crashedAttempts: 2, usage: spend.usage });
    expect(summary.wastedUsage).toMatchObject({ inputTokens: 103, known: "partial" });
    expect(summary.wastedUsage.costUsd).toBe(0.2);
    expect(summary.byAgent.a).toMatchObject({
      turns: 1,
      attempts: 2,
      crashedAttempts: 1,
      wastedUsage: { inputTokens: 101 },
    });
    expect(summary.byAgent.c).toMatchObject({ turns: 0, attempts: 1, usage: { known: "unknown" } });
    const agents = Object.values(summary.byAgent);
    for (const field of ["turns", "attempts", "crashedAttempts"] as const)
      expect(agents.reduce((sum, agent) => sum + agent[field], 0)).toBe(field === "turns" ? 2 : summary[field]);
    expect(sameUsage(sumUsage(agents.map(({ usage }) => usage)), summary.usage)).toBe(true);
    expect(sameUsage(sumUsage(agents.map(({ wastedUsage }) => wastedUsage)), summary.wastedUsage)).toBe(true);
  });

  test("the four outcomes add up to what is settled, for any lines", () => {
    const statuses: readonly TurnStatus[] = [
      "completed",
      "failed",
      "crashed",
      "lost",
      "timeout",
      "cancelled",
      "expired",
      "limit_reached",
      "stopped_early",
    ];
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.constantFrom(...statuses), fc.constantFrom("a", "b", "__proto__"))), (cells) => {
        const fold = new SummaryFold("b1");
        for (const [status, agent] of cells) {
          const ok = outcomeOf(status) === "ok";
          fold.add(line({ status, agent, ok, ...(ok ? {} : { error: "x" }) }));
        }
        const summary = fold.summary({ turns: cells.length });
        for (const part of [summary, ...Object.values(summary.byAgent)]) {
          expect(part.ok + part.failed + part.cancelled + part.expired).toBe(
            "settled" in part ? part.settled : part.turns,
          );
        }
        expect(Object.values(summary.byAgent).reduce((sum, agent) => sum + agent.turns, 0)).toBe(cells.length);
        expect(JSON.parse(JSON.stringify(summary))).toEqual(summary);
      }),
    );
  });
});
