import { describe, expect, test } from "vitest";
import { failure } from "../../../src/domain/failure.ts";
import type { Message } from "../../../src/domain/message.ts";
import { TurnResult } from "../../../src/domain/turn-result.ts";
import { addUsage, type Usage } from "../../../src/domain/usage.ts";
import type { ClosedAttempt, TurnFacts } from "../../../src/ledger/ledger.ts";
import { buildResult, buildUnrunResult, closedAttempt } from "../../../src/queue/build-result.ts";
import { storedRequest } from "../../agents.ts";
import { TEN_TOKENS, testRecord } from "../../lane.ts";

const used = (inputTokens: number): Usage => ({ inputTokens, modelCalls: 1, toolCalls: 0, known: "reported" });

function closed(attempt: number, more: Partial<ClosedAttempt> = {}): ClosedAttempt {
  return {
    attempt,
    status: "crashed",
    usage: used(attempt),
    worker: "w",
    startedAt: 1,
    endedAt: 2,
    crashed: true,
    steps: 2,
    ...more,
  };
}

function facts(more: Partial<TurnFacts> = {}): TurnFacts {
  return {
    request: storedRequest(),
    generation: 1,
    firstAttempt: 1,
    spent: 0,
    crashes: 0,
    seq: 0,
    rev: 0,
    submittedAt: 500,
    startedAt: 700,
    attempts: [],
    ...more,
  };
}

function ending(known: TurnFacts, more: Parameters<typeof testRecord>[1] = {}) {
  const attempt = (known.attempts.at(-1)?.attempt ?? 0) + 1;
  const record = testRecord({ attempt, iteration: 3, facts: known }, more);
  return { turn: "t1", facts: known, record, summary: closedAttempt(record, "w"), score: null };
}

test("a first attempt that answered", () => {
  const result = buildResult(ending(facts()));
  expect(TurnResult.parse(result)).toEqual(result);
  expect(result).toMatchObject({
    v: 1,
    turn: "t1",
    generation: 1,
    agent: "a",
    output: "out",
    ok: true,
    status: "completed",
    usage: TEN_TOKENS,
    cancelled: false,
    budgetExhausted: false,
    score: null,
    startedAt: 700,
    endedAt: 2000,
    durationMs: 1300,
    queuedMs: 200,
    wastedUsage: { modelCalls: 0, toolCalls: 0, known: "reported" },
  });
  expect(result.messages).toHaveLength(2);
  expect("error" in result || "session" in result || "failure" in result).toBe(false);
});

describe("spend", () => {
  test("is the sum over the attempts of the generation, late spend too; wasted is what is not the answer's", () => {
    const known = facts({ attempts: [closed(1, { late: used(1000) }), closed(2)] });
    const result = buildResult(ending(known, { usage: used(50) }));
    expect(result.usage.inputTokens).toBe(1 + 1000 + 2 + 50);
    expect(result.wastedUsage.inputTokens).toBe(1003);
    expect(result.attempts.map(({ usage }) => usage.inputTokens)).toEqual([1001, 2, 50]);
    expect(result.attempts.map((attempt) => Object.keys(attempt)).flat()).not.toContain("late");
    expect(result.stepsUsed).toBe(4);
  });

  test("without an answer all of it is wasted", () => {
    const result = buildResult(ending(facts({ attempts: [closed(1)] }), { status: "crashed", usage: used(50) }));
    expect(result.wastedUsage).toEqual(result.usage);
    expect(result).toMatchObject({
      ok: false,
      output: "",
      messages: [],
      error: "it crashed",
      failure: { code: "agent_crash" },
    });
  });

  test("of an earlier generation is not in it", () => {
    const known = facts({ generation: 2, firstAttempt: 3, attempts: [closed(1), closed(2), closed(3)] });
    const result = buildResult(ending(known, { usage: used(50) }));
    expect(result.attempts.map(({ attempt }) => attempt)).toEqual([3, 4]);
    expect(result.usage.inputTokens).toBe(53);
  });

  test("what is not fully known says so", () => {
    const known = facts({ attempts: [closed(1, { usage: { modelCalls: 0, toolCalls: 0, known: "unknown" } })] });
    expect(buildResult(ending(known)).usage).toEqual(
      addUsage(TEN_TOKENS, { modelCalls: 0, toolCalls: 0, known: "unknown" }),
    );
    expect(buildResult(ending(known)).usage.known).toBe("partial");
  });
});

test("a limit is still ok, and says that the budget is exhausted and why it stopped", () => {
  const result = buildResult({
    ...ending(facts(), { status: "limit_reached", crashed: false }),
    stopReason: "max_steps",
  });
  expect(result).toMatchObject({ ok: true, budgetExhausted: true, stopReason: "max_steps", status: "limit_reached" });
});

test("D22: a cancelled turn has the reason's text as its error", () => {
  const result = buildResult(ending(facts(), { status: "cancelled", failure: failure("cancelled", "user left") }));
  expect(result).toMatchObject({ ok: false, cancelled: true, error: "user left", status: "cancelled" });
});

describe("a turn that was cancelled", () => {
  const cancel = { reason: "user left", requestedAt: 1500 };

  test("A47: is cancelled whatever its attempt ended as, what it had said kept, what that cost not wasted", () => {
    const due = { ok: false, cancelled: true, error: "user left", status: "cancelled", output: "out" };
    const whole = buildResult(ending(facts({ cancel })));
    expect(TurnResult.parse(whole)).toEqual(whole);
    expect(whole).toMatchObject({ ...due, stopReason: "cancelled", failure: { code: "cancelled" } });
    expect(whole.messages).toHaveLength(2);
    expect(whole.attempts[0]?.status).toBe("completed");
    expect(whole.wastedUsage.modelCalls).toBe(0);
    for (const status of ["crashed", "timeout", "failed", "interrupted", "lost", "cancelled"] as const) {
      const result = buildResult(ending(facts({ cancel }), { status }));
      expect(result).toMatchObject({ ...due, wastedUsage: TEN_TOKENS });
    }
  });

  test("C27: its messages are valid for a provider: no tool call without its result", () => {
    const messages: Message[] = [
      { role: "user", content: "x" },
      { role: "assistant", content: "", toolCalls: [{ id: "1", name: "pay", args: {} }] },
    ];
    const result = buildResult(ending(facts({ cancel }), { status: "cancelled", messages }));
    expect(result.messages).toEqual([{ role: "user", content: "x" }]);
  });

  test("and never run has no start; one that was has the sums of its attempts", () => {
    const unrun = { how: "cancelled", reason: "user left", endedAt: 2500 } as const;
    const never = buildUnrunResult({ ...unrun, facts: facts({ startedAt: 0 }) });
    expect(TurnResult.parse(never)).toEqual(never);
    expect(never).toMatchObject({ attempts: [], queuedMs: 2000, durationMs: 0, stopReason: "cancelled", score: null });
    expect("startedAt" in never || "iteration" in never).toBe(false);
    const known = facts({ firstAttempt: 2, attempts: [closed(1), closed(2, { late: used(5) })] });
    const backedOff = buildUnrunResult({ ...unrun, facts: known });
    expect(backedOff).toMatchObject({ startedAt: 700, durationMs: 1800, queuedMs: 200, stepsUsed: 2 });
    expect(backedOff.usage.inputTokens).toBe(7);
    expect(backedOff.wastedUsage).toEqual(backedOff.usage);
    expect(backedOff.attempts.map(({ attempt }) => attempt)).toEqual([2]);
  });
});

test("D22: an expired turn is told from a cancelled one", () => {
  const result = buildUnrunResult({
    facts: facts({ startedAt: 0 }),
    how: "expired",
    reason: "too late",
    endedAt: 2500,
  });
  expect(TurnResult.parse(result)).toEqual(result);
  expect(result).toMatchObject({
    status: "expired",
    cancelled: false,
    error: "too late",
    failure: { code: "expired" },
  });
  expect("stopReason" in result).toBe(false);
});

test("error is never empty, and session and iteration are there for a session's turn", () => {
  const { failure: _failure, ...record } = testRecord(
    { attempt: 1, iteration: 3, facts: facts() },
    { status: "crashed" },
  );
  const known = facts({ request: storedRequest({ session: "s" }) });
  const result = buildResult({ turn: "t1", facts: known, record, summary: closedAttempt(record, "w"), score: null });
  expect(result).toMatchObject({ error: "the attempt ended as crashed", session: "s", iteration: 3 });
});

test("a clock that was set back gives no negative duration", () => {
  const result = buildResult(ending(facts({ submittedAt: 9000, startedAt: 8000 })));
  expect([result.queuedMs, result.durationMs]).toEqual([0, 0]);
});
