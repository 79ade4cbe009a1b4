import { expect, test } from "vitest";
import { callFailure } from "../../../../src/agents/chat/call-failure.ts";

const KEY = "tk_0123456789abcdefghijklmnopqrstuvwxyz";
/** It stands where a provider's words are cut. */
const LONG = `${"x".repeat(280)} ${KEY} is no key`;

test.each([
  ["a refusal", { statusCode: 401, message: LONG }, undefined],
  [
    "an error inside of an answer",
    new Error("the stream ended"),
    { headers: {}, error: { status: 401, kind: "", message: LONG, text: LONG, isFirst: true } },
  ],
])("a key that a provider repeats is not told, not in part either: %s", (_, thrown, heard) => {
  const { failure } = callFailure(thrown, { now: 0, secrets: [KEY], answering: false, heard });
  expect(failure.code).toBe("auth");
  expect(failure.message).not.toContain("tk_");
  expect(failure.message).toContain("[masked]");
});
