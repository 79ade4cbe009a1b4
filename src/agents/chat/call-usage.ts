import type { LanguageModelUsage } from "ai";
import { wholeCost } from "../../domain/cost.ts";
import { NO_USAGE, UNKNOWN_USAGE, type Usage } from "../../domain/usage.ts";
import type { Price } from "./chat-config.ts";

const MILLION = 1e6;

/**
 * What one finished model call has used, as the provider reported it. The SDK makes 0 of what is
 * not there, so that the provider's own words (`raw`) say which kinds were reported.
 */
export function usageOfCall(said: LanguageModelUsage, price: Price | undefined): Usage {
  const { inputTokens, outputTokens } = said;
  if (inputTokens === undefined || outputTokens === undefined) return { ...UNKNOWN_USAGE, modelCalls: 1 };
  const { cacheReadTokens, cacheWriteTokens, noCacheTokens } = said.inputTokenDetails;
  const usage: Usage = {
    ...NO_USAGE,
    modelCalls: 1,
    inputTokens: noCacheTokens ?? Math.max(0, inputTokens - (cacheReadTokens ?? 0) - (cacheWriteTokens ?? 0)),
    outputTokens,
    ...reported("cacheReadTokens", cacheReadTokens, said.raw, /cache/),
    ...reported("cacheWriteTokens", cacheWriteTokens, said.raw, /cache_creation|cache_write/),
    ...reported("reasoningTokens", said.outputTokenDetails.reasoningTokens, said.raw, /reasoning/),
  };
  return withCost(usage, price);
}

/** Usage with its cost, where a price is known. */
export function withCost(usage: Usage, price: Price | undefined): Usage {
  return price === undefined ? usage : { ...usage, costUsd: costOf(usage, price) };
}

function reported<F extends string>(
  field: F,
  value: number | undefined,
  raw: unknown,
  named: RegExp,
): { readonly [K in F]?: number } {
  if (value === undefined || (value === 0 && !named.test(JSON.stringify(raw ?? {})))) return {};
  return { [field]: value } as { [K in F]: number };
}

/** What the tokens cost, in US dollars. */
export function costOf(usage: Usage, price: Price): number {
  const { inputPerMTok, outputPerMTok, cacheReadPerMTok = inputPerMTok, cacheWritePerMTok = inputPerMTok } = price;
  const { inputTokens = 0, outputTokens = 0, cacheReadTokens = 0, cacheWriteTokens = 0 } = usage;
  const cost =
    inputTokens * inputPerMTok +
    outputTokens * outputPerMTok +
    cacheReadTokens * cacheReadPerMTok +
    cacheWriteTokens * cacheWritePerMTok;
  return wholeCost(cost / MILLION);
}

/** A call that the provider refused: it was made, and nothing was paid for it. */
export const REFUSED_CALL: Usage = Object.freeze({ ...NO_USAGE, modelCalls: 1 });
