import fc from "fast-check";
import { describe, expect, expectTypeOf, test } from "vitest";
import { FIRST_STATES, TRANSITIONS, TurnState, mayMove, type Move } from "../../../src/domain/lifecycle.ts";
import { StopReason, isLimit } from "../../../src/domain/stop-reason.ts";
import { AttemptStatus, endedWell, isCrashed, strongestStatus } from "../../../src/domain/turn-record.ts";
import { Outcome, TurnResult, TurnStatus, outcomeOf } from "../../../src/domain/turn-result.ts";
import { NO_USAGE } from "../../../src/domain/usage.ts";
import { attemptStatus } from "./arbitraries.ts";

test("a crashed attempt is one that was cut off", () => {
  expect(AttemptStatus.options.filter(isCrashed)).toEqual(["timeout", "crashed", "lost"]);
});

describe("status precedence", () => {
  test("timeout > cancelled > crashed > failed > stopped_early > limit_reached > completed, the worker's verdicts above all", () => {
    const order = [
      "lost",
      "interrupted",
      "timeout",
      "cancelled",
      "crashed",
      "failed",
      "stopped_early",
      "limit_reached",
      "completed",
    ] as const;
    expect([...order].toSorted()).toEqual([...AttemptStatus.options].toSorted());
    for (const [index, status] of order.entries()) {
      for (const weaker of order.slice(index)) {
        expect(strongestStatus(status, weaker)).toBe(status);
        expect(strongestStatus(weaker, status)).toBe(status);
      }
    }
  });

  test("the order in which the reasons are named does not matter, and naming one twice neither", () => {
    fc.assert(
      fc.property(attemptStatus, attemptStatus, attemptStatus, (a, b, c) => {
        expect(strongestStatus(a, b)).toBe(strongestStatus(b, a));
        expect(strongestStatus(strongestStatus(a, b), c)).toBe(strongestStatus(a, strongestStatus(b, c)));
        expect(strongestStatus(a, b, c)).toBe(strongestStatus(strongestStatus(a, b), c));
        expect(strongestStatus(a, a)).toBe(a);
        expect([a, b, c]).toContain(strongestStatus(a, b, c));
      }),
    );
  });
});

describe("outcomes", () => {
  test("a settled turn is exactly one of four, and ok is what ended well", () => {
    const reached = new Set(TurnStatus.options.map(outcomeOf));
    expect([...reached].toSorted()).toEqual([...Outcome.options].toSorted());
    for (const status of AttemptStatus.options) expect(outcomeOf(status) === "ok").toBe(endedWell(status));
  });

  test("a stored Result has an error if and only if it is not ok", () => {
    const stored = {
      v: 1,
      turn: "t",
      generation: 1,
      agent: "a",
      output: "",
      messages: [],
      usage: NO_USAGE,
      stepsUsed: 0,
      cancelled: false,
      budgetExhausted: false,
      planSteps: [],
      attempts: [],
      wastedUsage: NO_USAGE,
      endedAt: 1,
      durationMs: 0,
      queuedMs: 0,
    };
    expect(TurnResult.safeParse({ ...stored, ok: true, status: "completed" }).success).toBe(true);
    expect(TurnResult.safeParse({ ...stored, ok: false, status: "failed", error: "x" }).success).toBe(true);
    expect(TurnResult.safeParse({ ...stored, ok: true, status: "completed", error: "x" }).success).toBe(false);
    expect(TurnResult.safeParse({ ...stored, ok: false, status: "failed" }).success).toBe(false);
    expect(TurnResult.safeParse({ ...stored, v: 2, ok: true, status: "completed" }).success).toBe(false);
  });

  test("a limit is a stop reason and no other reason is a limit", () => {
    expect(StopReason.options.filter(isLimit)).toEqual(["max_steps", "max_tool_calls", "max_tokens", "max_cost"]);
  });

  test("states and moves outside the words do not type-check", () => {
    expectTypeOf<TurnState>().toEqualTypeOf<"delayed" | "waiting" | "parked" | "running" | "stopping" | "settled">();
    // @ts-expect-error BullMQ's word is not one of ours
    expect(TurnState.safeParse("active" satisfies TurnState).success).toBe(false);
    // @ts-expect-error an attempt does not expire, a turn does
    expect(AttemptStatus.safeParse("expired" satisfies AttemptStatus).success).toBe(false);
  });
});

describe("the transition table", () => {
  const steps = TurnState.options.flatMap((from) =>
    Object.entries(TRANSITIONS[from]).flatMap(([move, to]) =>
      to.map((state) => ({ from, move: move as Move, to: state })),
    ),
  );

  test("every state can be reached from one that a turn is submitted into", () => {
    const reached = new Set<TurnState>(FIRST_STATES);
    for (const _round of TurnState.options) for (const step of steps) if (reached.has(step.from)) reached.add(step.to);
    expect([...reached].toSorted()).toEqual([...TurnState.options].toSorted());
  });

  test("every state leads to settled, and settled is left by a retry only", () => {
    const ends = new Set<TurnState>(["settled"]);
    for (const _round of TurnState.options) for (const step of steps) if (ends.has(step.to)) ends.add(step.from);
    expect([...ends].toSorted()).toEqual([...TurnState.options].toSorted());
    expect(new Set(steps.filter((step) => step.from === "settled").map((step) => step.move))).toEqual(
      new Set(["retry"]),
    );
    expect(steps.filter((step) => step.move === "retry").every((step) => step.from === "settled")).toBe(true);
  });

  test("mayMove answers by the table", () => {
    for (const step of steps) expect(mayMove(step.from, step.move, step.to)).toBe(true);
    expect(mayMove("settled", "settle", "settled")).toBe(false);
    expect(mayMove("settled", "begin", "running")).toBe(false);
    expect(mayMove("running", "begin", "running")).toBe(false);
    expect(mayMove("waiting", "stop", "stopping")).toBe(false);
  });
});
