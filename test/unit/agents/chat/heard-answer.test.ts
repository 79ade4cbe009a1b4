import { expect, test } from "vitest";
import { HeardAnswer } from "../../../../src/agents/chat/heard-answer.ts";

/** An answer that came in pieces of so many bytes. */
function heard(body: string, size: number): HeardAnswer {
  const answer = new HeardAnswer({});
  const bytes = Buffer.from(body);
  for (let at = 0; at < bytes.length; at += size) answer.take(bytes.subarray(at, at + size));
  return answer;
}

const SAYS = 'data: {"choices":[{"delta":{"content":"an \\"error\\": {}, é"}}],"error":null}\r\n\r\n';
const USED = 'data: {"choices":[],"usage": {"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":4}}}\r\n\r\n';
const FAILED = 'data: {"error":{"message":"é","code":"429"}}\r\n\r\n';

test("U03: an error and the usage before it are heard wherever the bytes are cut", () => {
  const body = SAYS + USED + FAILED;
  for (let size = 1; size <= Buffer.byteLength(body); size += 1) {
    const { error, usage } = heard(body, size);
    expect(error).toMatchObject({ status: 429, message: "é", isFirst: false });
    expect(usage).toMatchObject({ inputTokens: 5, cacheReadTokens: 4, known: "partial" });
  }
});

test("what only looks like an error is none, and comes before one", () => {
  expect(heard(SAYS + USED, 7).error).toBeUndefined();
  expect(heard(`: waiting\n\n${FAILED}`, 7).error).toMatchObject({ isFirst: true });
  expect(heard(SAYS + FAILED, 1000).error).toMatchObject({ isFirst: false });
});

test("an event of an error holds one whatever its data is; the first of several counts", () => {
  const { error } = heard(`event: error\ndata: upstream is overloaded\n\n${FAILED}`, 11);
  expect(error).toEqual({
    status: undefined,
    kind: "",
    message: "upstream is overloaded",
    text: "upstream is overloaded",
    isFirst: true,
  });
});

test("a whole completion in place of a stream is no error; nor is a line without an end kept for ever", () => {
  expect(heard('{"choices":[{"message":{"content":"hi"}}]}', 9).error).toBeUndefined();
  expect(heard(`data: "${"x".repeat(1_000_000)}`, 65_536).error).toBeUndefined();
});
