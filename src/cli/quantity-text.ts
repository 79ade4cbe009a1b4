import prettyMs from "pretty-ms";
import { totalTokens, type Usage } from "../domain/usage.ts";

/** `1 turn`, `2 turns`. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

/** A duration for people. */
export function duration(ms: number): string {
  return ms < 1000
    ? `${Math.round(ms)} ms`
    : prettyMs(ms, { secondsDecimalDigits: ms < 60_000 ? 1 : 0, keepDecimalsOnWholeSeconds: ms < 60_000 });
}

/** `950`, `12.4k`, `3.1M`. */
export function shortNumber(number: number): string {
  if (number < 1000) return String(number);
  if (number < 1_000_000) return `${(number / 1000).toFixed(number < 100_000 ? 1 : 0)}k`;
  return `${(number / 1_000_000).toFixed(1)}M`;
}

/** US dollars: four digits behind the point, two from a dollar on; what is less than they can say by its first two. */
export function dollars(costUsd: number, digits = costUsd < 1 ? 4 : 2): string {
  const text = costUsd.toFixed(digits);
  if (costUsd === 0 || Number(text) !== 0) return `$${text}`;
  // Money is never rounded to nothing.
  const short = Number(costUsd.toPrecision(2));
  return `$${short < LEAST_WITH_DIGITS ? short : short.toFixed(20).replace(/0+$/, "")}`;
}

/** Below it zeros are hard to count, in US dollars: it is written as 2e-13. */
const LEAST_WITH_DIGITS = 1e-12;

/** A share as percent. */
export function percent(share: number): string {
  return `${(share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;
}

/** Tokens and cost in a few words; `≥` at each where more was spent than was reported, `unknown` where nothing was. */
export function usageText(usage: Usage): string {
  if (usage.known === "unknown") return "unknown";
  const tokens = totalTokens(usage);
  const parts = [
    ...(tokens === undefined ? [] : [`${tokensText(usage)} tokens`]),
    ...(usage.costUsd === undefined ? [] : [costText(usage)]),
  ];
  if (parts.length === 0) return usage.known === "partial" ? "unknown" : "none";
  return parts.join(", ");
}

/** The tokens; `≥` where more were used than were reported. */
export function tokensText(usage: Usage): string {
  const tokens = totalTokens(usage);
  return amountText(usage, tokens === undefined ? undefined : shortNumber(tokens));
}

/** The cost; `≥` where more was spent than was reported, `-` where there is no price. */
export function costText(usage: Usage): string {
  return usage.costUsd === undefined ? "-" : amountText(usage, dollars(usage.costUsd));
}

function amountText({ known }: Usage, amount: string | undefined): string {
  if (amount === undefined) return known === "reported" ? "-" : "unknown";
  return known === "reported" ? amount : `≥ ${amount}`;
}

/** Every amount of a usage, by name. */
export function usageDetails(usage: Usage): string {
  const amounts: readonly (readonly [string, number | undefined])[] = [
    ["input tokens", usage.inputTokens],
    ["output tokens", usage.outputTokens],
    ["cache read tokens", usage.cacheReadTokens],
    ["cache write tokens", usage.cacheWriteTokens],
    ["reasoning tokens", usage.reasoningTokens],
    ["model calls", usage.modelCalls === 0 ? undefined : usage.modelCalls],
    ["tool calls", usage.toolCalls === 0 ? undefined : usage.toolCalls],
  ];
  const parts = amounts.flatMap(([name, amount]) => (amount === undefined ? [] : [`${amount} ${name}`]));
  if (usage.costUsd !== undefined) parts.push(dollars(usage.costUsd, 6));
  if (parts.length === 0) parts.push("none");
  const floor =
    usage.known === "reported"
      ? ""
      : usage.known === "partial"
        ? " (a floor: not all of it was reported)"
        : " (nothing was reported)";
  return `${parts.join(", ")}${floor}`;
}
