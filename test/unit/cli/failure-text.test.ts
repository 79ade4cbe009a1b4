import { expect, test } from "vitest";
import { ERROR_CODES, type ErrorCode, TurnqError } from "../../../src/domain/error.ts";
import { errorText, exitCodeOf } from "../../../src/cli/failure-text.ts";

test("every error has its exit code: 3 for a service, 1 for a fault of turnq itself, else 2", () => {
  const codes = (wanted: number): string[] =>
    Object.keys(ERROR_CODES).filter((code) => exitCodeOf(new TurnqError(code as ErrorCode, "x")) === wanted);
  expect(codes(3)).toEqual(["redis_unreachable", "redis_refused", "redis_missing", "wait_timeout"]);
  expect(codes(1)).toEqual(["closed", "corrupt", "internal"]);
  expect(codes(2)).toHaveLength(Object.keys(ERROR_CODES).length - 7);
  expect(exitCodeOf(new Error("a bug"))).toBe(1);
  expect(exitCodeOf(undefined)).toBe(1);
});

test("an error is its message; the stack only for debugging; a password never, nor what a terminal would act on", () => {
  const error = new TurnqError("file", "cannot be read of redis://me:pa55@host/1", { where: "a.jsonl", hint: "Look." });
  expect(errorText(error, false)).toBe("error: a.jsonl: cannot be read of redis://me:***@host/1. Look.");
  expect(errorText(error, true)).toContain("failure-text.test.ts");
  const quoted = new TurnqError("config", 'Unexpected token \0 in "\u001b[31m\0\nx"', { where: "c.json" });
  expect(errorText(quoted, false)).toBe('error: c.json: Unexpected token <U+0000> in "<U+0000>\nx"');
  expect(errorText(null, false)).toBe("error: null was thrown");
});
