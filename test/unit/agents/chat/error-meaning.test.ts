import { expect, test } from "vitest";
import { meaningOf } from "../../../../src/agents/chat/error-meaning.ts";
import { saidError } from "../../../../src/agents/chat/said-error.ts";

test.each<[number, object, string]>([
  [429, { code: "rate_limit_exceeded" }, "rate_limited"],
  [429, { code: "insufficient_quota" }, "quota_exhausted"],
  [402, {}, "quota_exhausted"],
  [529, { type: "overloaded_error" }, "overloaded"],
  [401, { code: "invalid_api_key" }, "auth"],
  [403, { type: "permission_error" }, "auth"],
  [404, { code: "model_not_found" }, "config"],
  [413, { type: "request_too_large" }, "context_overflow"],
  [400, { code: "context_length_exceeded", type: "invalid_request_error" }, "context_overflow"],
  [400, { type: "invalid_request_error", message: "prompt is too long: 9 tokens" }, "context_overflow"],
  [400, { code: "content_filter" }, "refused"],
  [400, { type: "invalid_request_error" }, "invalid_request"],
  [500, { type: "server_error" }, "agent_error"],
  [503, { status: "UNAVAILABLE" }, "agent_error"],
])("U03: one table: status %s with %j, and without its status, is %s", (status, said, code) => {
  const error = saidError(said);
  expect(meaningOf({ ...error, status, saysWhen: false })).toBe(code);
  expect(meaningOf({ ...saidError({ ...said, status_code: status }), saysWhen: false })).toBe(code);
  if (Object.keys(said).length > 0) expect(meaningOf({ ...error, saysWhen: false })).toBe(code);
});

test("a name says more than a status that stands for anything; a provider that says when is overloaded", () => {
  const of = (status: number, said: object, saysWhen = false): string =>
    meaningOf({ ...saidError(said), status, saysWhen });
  expect(of(400, { type: "rate_limit_error" })).toBe("rate_limited");
  expect(of(500, { type: "overloaded_error" })).toBe("overloaded");
  expect(of(500, { type: "invalid_request_error" })).toBe("agent_error");
  expect(of(503, {}, true)).toBe("overloaded");
});

test("where it has neither status nor name its words count; one that nobody knows may pass", () => {
  const of = (message: string): string => meaningOf({ ...saidError({ message, code: 1302 }), saysWhen: false });
  expect(of("Rate limit reached for requests")).toBe("rate_limited");
  expect(of("Incorrect API key provided")).toBe("auth");
  expect(of("This model's maximum context length is 5")).toBe("context_overflow");
  expect(of("You exceeded your current quota")).toBe("quota_exhausted");
  expect(of("hm")).toBe("agent_error");
});
