import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { TurnqError, isTurnqError, messageOf } from "../../../src/domain/error.ts";
import { FAILURE_MESSAGE_MAX, FAILURE_POLICY, Failure, FailureCode, failure } from "../../../src/domain/failure.ts";

const throwing = (): never => {
  throw new Error("no");
};

describe("messageOf", () => {
  test("the text of anything that was thrown", () => {
    const cycle: { self?: unknown } = {};
    cycle.self = cycle;
    const cases: readonly (readonly [unknown, string])[] = [
      [new Error("bad"), "bad"],
      [new TypeError(""), "TypeError"],
      ["text", "text"],
      [null, "null was thrown"],
      [undefined, "undefined was thrown"],
      [{ message: "like an error" }, "like an error"],
      [{ code: 5 }, '{"code":5}'],
      [42, "42"],
      [5n, "5"],
      [Symbol("s"), "Symbol(s)"],
      [cycle, "a value that cannot be read was thrown"],
      [
        {
          get message() {
            return throwing();
          },
        },
        "a value that cannot be read was thrown",
      ],
      [
        new Proxy({}, { has: throwing, get: throwing, getPrototypeOf: throwing }),
        "a value that cannot be read was thrown",
      ],
      [Object.assign(new Error("x"), { message: 5 }), "Error"],
    ];
    for (const [thrown, text] of cases) expect(messageOf(thrown)).toBe(text);
  });

  test("never throws and always answers with text", () => {
    fc.assert(
      fc.property(fc.anything({ withBigInt: true, withNullPrototype: true }), (value) => {
        expect(typeof messageOf(value)).toBe("string");
      }),
    );
  });
});

describe("TurnqError", () => {
  test("says what, where and what to do", () => {
    const error = new TurnqError("invalid_request", "is not a number.", {
      where: "line 3",
      hint: "Write 3.",
      cause: new Error("low"),
    });
    expect(error.message).toBe("line 3: is not a number. Write 3.");
    expect(error.cause).toBeInstanceOf(Error);
    expect("cause" in new TurnqError("closed", "closed")).toBe(false);
  });

  test("is known by its code, also one from another copy of the package", () => {
    expect(isTurnqError(new TurnqError("closed", "x"))).toBe(true);
    expect(isTurnqError(new TurnqError("closed", "x"), "config")).toBe(false);
    expect(isTurnqError(Object.assign(new Error("x"), { code: "closed" }), "closed")).toBe(true);
    for (const other of [
      Object.assign(new Error("x"), { code: "ENOENT" }),
      Object.assign(new Error("x"), { code: "toString" }),
      { code: "closed" },
      null,
    ]) {
      expect(isTurnqError(other)).toBe(false);
    }
  });
});

describe("failures", () => {
  test("A28 the message and the cause's are cut", () => {
    const made = failure("agent_error", "x".repeat(2_000_000), { cause: new Error("y".repeat(2_000_000)) });
    expect(made.message).toHaveLength(FAILURE_MESSAGE_MAX);
    expect(made.cause?.message).toHaveLength(FAILURE_MESSAGE_MAX);
    expect(Object.isFrozen(made)).toBe(true);
  });

  test("every code has a policy, and retryable follows it unless the source says otherwise", () => {
    expect(Object.keys(FAILURE_POLICY)).toEqual(FailureCode.options);
    for (const code of FailureCode.options) {
      const { spends, then } = FAILURE_POLICY[code];
      const made = failure(code, "x");
      expect(Failure.parse(JSON.parse(JSON.stringify(made)))).toEqual(made);
      expect(made.retryable).toBe(then !== "end" && then !== "retry_if_retryable");
      expect(failure(code, "x", { retryable: true }).retryable).toBe(true);
      if (then === "gate" || then === "hand_back") expect(spends).toBe("nothing");
      expect(spends === "crash").toBe(code === "worker_lost");
    }
    expect(Object.hasOwn(failure("auth", "x"), "cause")).toBe(false);
  });
});
