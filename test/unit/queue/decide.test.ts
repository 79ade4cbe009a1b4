import { describe, expect, test } from "vitest";
import { failure, FAILURE_POLICY, FailureCode } from "../../../src/domain/failure.ts";
import { backoffMs, resolveRetry, type RetryInput } from "../../../src/domain/limits.ts";
import { AttemptStatus, type TurnRecord } from "../../../src/domain/turn-record.ts";
import { decide, type Budget, type Decision } from "../../../src/queue/decide.ts";
import { storedRequest } from "../../agents.ts";
import { testRecord } from "../../lane.ts";

const facts = {
  request: storedRequest(),
  generation: 1,
  firstAttempt: 1,
  spent: 0,
  crashes: 0,
  seq: 0,
  rev: 0,
  submittedAt: 0,
  startedAt: 0,
  attempts: [],
};
const record = (more: Partial<TurnRecord>): TurnRecord => testRecord({ attempt: 1, iteration: 1, facts }, more);
const budget = (more: Partial<Budget> = {}, retry: RetryInput = {}): Budget => ({
  retry: resolveRetry(retry),
  spent: 0,
  crashes: 0,
  // The records of this file end now.
  startedAt: Date.now(),
  ...more,
});
const failedBy = (code: FailureCode, retryable?: boolean): TurnRecord =>
  record({ status: "crashed", failure: failure(code, "x", { retryable }) });
const kindOf = (decision: Decision): string => decision.kind;
const half = (): number => 0.5;

/** What follows each code the first time, by design 7: kind and spend. */
const TABLE: Readonly<Record<FailureCode, readonly [Decision["kind"], Decision["spends"]]>> = {
  agent_error: ["settle", "attempt"],
  agent_crash: ["retry", "attempt"],
  worker_lost: ["retry", "crash"],
  timeout: ["settle", "attempt"],
  idle_timeout: ["settle", "attempt"],
  rate_limited: ["gate", "nothing"],
  overloaded: ["gate", "nothing"],
  quota_exhausted: ["gate", "nothing"],
  interrupted: ["hand_back", "nothing"],
  cancelled: ["settle", "nothing"],
  expired: ["settle", "nothing"],
  auth: ["settle", "attempt"],
  config: ["settle", "attempt"],
  invalid_request: ["settle", "attempt"],
  context_overflow: ["settle", "attempt"],
  refused: ["settle", "attempt"],
  output_too_large: ["settle", "attempt"],
  out_of_memory: ["settle", "attempt"],
  internal: ["retry", "attempt"],
};

test.each(FailureCode.options)("%s: what it spends and what follows", (code) => {
  const decision = decide(failedBy(code), budget(), half);
  expect([decision.kind, decision.spends]).toEqual(TABLE[code]);
});

test.each(
  AttemptStatus.options.filter((status) =>
    ["completed", "stopped_early", "limit_reached", "cancelled"].includes(status),
  ),
)("%s ends the turn and spends nothing", (status) => {
  expect(decide(record({ status }), budget({ spent: 9, crashes: 9 }), half)).toEqual({
    kind: "settle",
    spends: "nothing",
  });
});

test("a failed attempt that names no failure ends the turn: nothing says that another would do better", () => {
  const { failure: _failure, ...plain } = record({ status: "failed" });
  expect(decide(plain, budget(), half)).toEqual({ kind: "settle", spends: "attempt" });
});

describe("budgets", () => {
  const retried = FailureCode.options.filter(
    (code) => FAILURE_POLICY[code].then === "retry" && FAILURE_POLICY[code].spends === "attempt",
  );

  test.each(retried)("%s: maxAttempts counts the attempts that spend one, this one too", (code) => {
    const kinds = [0, 1, 2, 3].map((spent) => kindOf(decide(failedBy(code), budget({ spent }), half)));
    expect(kinds).toEqual(["retry", "retry", "settle", "settle"]);
    expect(kindOf(decide(failedBy(code), budget({}, { maxAttempts: 1 }), half))).toBe("settle");
    expect(kindOf(decide(failedBy(code), budget({ crashes: 99 }), half))).toBe("retry");
  });

  test("A02: lost workers have a budget of their own", () => {
    expect(
      [0, 1, 2].map((crashes) => kindOf(decide(failedBy("worker_lost"), budget({ crashes, spent: 99 }), half))),
    ).toEqual(["retry", "retry", "settle"]);
  });

  test.each(["rate_limited", "overloaded", "quota_exhausted", "interrupted"] as const)(
    "%s goes on whatever was spent",
    (code) => {
      expect(kindOf(decide(failedBy(code), budget({ spent: 99, crashes: 99 }), half))).not.toBe("settle");
    },
  );
});

test("an agent's own error is retried only where its source says so", () => {
  expect(kindOf(decide(failedBy("agent_error", true), budget(), half))).toBe("retry");
  expect(kindOf(decide(failedBy("agent_error", false), budget(), half))).toBe("settle");
  expect(kindOf(decide(failedBy("agent_error", true), budget({ spent: 2 }), half))).toBe("settle");
});

test("onTimeout: timeouts are retried within the budget", () => {
  for (const code of ["timeout", "idle_timeout"] as const) {
    expect(kindOf(decide(failedBy(code), budget({}, { onTimeout: true }), half))).toBe("retry");
    expect(kindOf(decide(failedBy(code), budget({ spent: 2 }, { onTimeout: true }), half))).toBe("settle");
  }
});

test("U13: onOutOfMemory: an attempt that needed more memory than it may is tried again only where that is asked for", () => {
  expect(kindOf(decide(failedBy("out_of_memory"), budget({}, { onOutOfMemory: true }), half))).toBe("retry");
  expect(kindOf(decide(failedBy("out_of_memory"), budget({ spent: 2 }, { onOutOfMemory: true }), half))).toBe("settle");
  expect(kindOf(decide(failedBy("out_of_memory"), budget({}, { onTimeout: true }), half))).toBe("settle");
});

test("C29: afterToolCalls never: no second attempt after a tool was called, neither by a crash nor by a lost worker", () => {
  const usage = { modelCalls: 1, toolCalls: 1, known: "reported" } as const;
  for (const code of ["agent_crash", "worker_lost", "internal"] as const) {
    const called = { ...failedBy(code), usage };
    expect(kindOf(decide(called, budget({}, { afterToolCalls: "never" }), half))).toBe("settle");
    expect(kindOf(decide(called, budget({}, { afterToolCalls: "always" }), half))).toBe("retry");
    expect(kindOf(decide(failedBy(code), budget({}, { afterToolCalls: "never" }), half))).toBe("retry");
  }
  // A provider that refuses to go on spends nothing, but the tool was called and the steps before it are paid.
  for (const code of ["rate_limited", "overloaded", "quota_exhausted"] as const) {
    const refused = { ...failedBy(code), usage };
    expect(decide(refused, budget({}, { afterToolCalls: "never" }), half)).toEqual({
      kind: "settle",
      spends: "nothing",
    });
    expect(kindOf(decide(refused, budget({}, { afterToolCalls: "always" }), half))).toBe("gate");
    expect(kindOf(decide(failedBy(code), budget({}, { afterToolCalls: "never" }), half))).toBe("gate");
  }
  // Handed back it was not the turn's fault, and spends nothing.
  expect(kindOf(decide({ ...failedBy("interrupted"), usage }, budget({}, { afterToolCalls: "never" }), half))).toBe(
    "hand_back",
  );
});

test("A31, A32: the wait grows by the factor from the first failure, has a cap, and is spread by the jitter", () => {
  const retry = {
    maxAttempts: 50,
    maxCrashes: 50,
    backoff: { delayMs: 100, factor: 3, maxMs: 2000, jitter: 0 },
  } as const;
  const wait = (spent: number, crashes = 0, code: FailureCode = "agent_crash"): number => {
    const decision = decide(failedBy(code), budget({ spent, crashes }, retry), half);
    return decision.kind === "retry" ? decision.afterMs : -1;
  };
  expect([0, 1, 2, 3, 40].map((spent) => wait(spent))).toEqual([100, 300, 900, 2000, 2000]);
  expect([0, 1].map((crashes) => wait(7, crashes, "worker_lost"))).toEqual([100, 300]);
  const jittered = resolveRetry({ backoff: { delayMs: 100, jitter: 0.2 } }).backoff;
  expect([0, 0.5, 1].map((random) => backoffMs(jittered, 1, () => random))).toEqual([80, 100, 120]);
});

test("what meets a provider's limits goes back and waits at the lane's gate, and ends after a day", () => {
  for (const code of ["rate_limited", "overloaded", "quota_exhausted"] as const) {
    const limited = failedBy(code);
    const after = (startedAt: number): Decision => decide(limited, budget({ startedAt }), half);
    expect(after(limited.endedAt - 24 * 3_600_000 + 1)).toEqual({ kind: "gate", spends: "nothing" });
    expect(after(limited.endedAt - 24 * 3_600_000)).toEqual({ kind: "settle", spends: "nothing" });
  }
});
