import type { LanguageModelUsage } from "ai";
import { expect, test } from "vitest";
import { costOf, usageOfCall } from "../../../../src/agents/chat/call-usage.ts";
import { NO_USAGE } from "../../../../src/domain/usage.ts";

function said(more: Partial<LanguageModelUsage> = {}): LanguageModelUsage {
  return {
    inputTokens: 100,
    inputTokenDetails: { noCacheTokens: 60, cacheReadTokens: 40, cacheWriteTokens: undefined },
    outputTokens: 20,
    outputTokenDetails: { textTokens: 20, reasoningTokens: 0 },
    totalTokens: 120,
    raw: { prompt_tokens: 100, prompt_tokens_details: { cached_tokens: 40 } },
    ...more,
  };
}

test("the uncached part of the input, what was cached, and no kind that nobody named", () => {
  expect(usageOfCall(said(), undefined)).toEqual({
    inputTokens: 60,
    outputTokens: 20,
    cacheReadTokens: 40,
    modelCalls: 1,
    toolCalls: 0,
    known: "reported",
  });
  const plain = said({
    inputTokenDetails: { noCacheTokens: 100, cacheReadTokens: 0, cacheWriteTokens: undefined },
    raw: { prompt_tokens: 100 },
  });
  expect(usageOfCall(plain, undefined)).not.toHaveProperty("cacheReadTokens");
});

test("a call without a report is unknown, not zero", () => {
  const usage = usageOfCall(said({ inputTokens: undefined, outputTokens: undefined }), undefined);
  expect(usage).toEqual({ modelCalls: 1, toolCalls: 0, known: "unknown" });
});

test("the cost is that of each kind; a kind without a price costs as input", () => {
  const price = { inputPerMTok: 2, outputPerMTok: 10 };
  expect(usageOfCall(said(), price).costUsd).toBeCloseTo((60 * 2 + 40 * 2 + 20 * 10) / 1e6, 12);
  const usage = { ...NO_USAGE, inputTokens: 1e6, outputTokens: 1e6, cacheReadTokens: 1e6, cacheWriteTokens: 1e6 };
  expect(costOf(usage, { ...price, cacheReadPerMTok: 0.5, cacheWritePerMTok: 3 })).toBe(15.5);
});
