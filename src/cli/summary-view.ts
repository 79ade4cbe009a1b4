import type { Failures } from "../batch/failure-tally.ts";
import type { AgentSummary, Summary } from "../batch/summary.ts";
import type { Colors } from "./output.ts";
import { harmless } from "./harmless.ts";
import { plainTable } from "./plain-table.ts";
import { cutText } from "../domain/text.ts";
import { totalTokens } from "../domain/usage.ts";
import { costText, counted, duration, percent, tokensText, usageText } from "./quantity-text.ts";

/** Of a failure's message, in characters. */
const REASON_CHARS = 160;

const HEAD = ["agent", "turns", "ok", "failed", "passed (95 %)", "attempts", "crashed", "tokens", "cost", "wasted"];

/** A table with a row for each agent; what was wasted is the cost of usage whose output is no Result's, else its tokens. */
export function summaryTable(summary: Summary, colors: Colors): string {
  const rows = Object.entries(summary.byAgent).map(([name, agent]) => row(name, agent, colors));
  return plainTable(HEAD, rows, colors);
}

function row(name: string, agent: AgentSummary, colors: Colors): string[] {
  const warn = (count: number, paint: (text: string) => string): string => (count === 0 ? "0" : paint(String(count)));
  return [
    name,
    String(agent.turns),
    String(agent.ok),
    warn(agent.failed + agent.expired, colors.red),
    passedText(agent),
    String(agent.attempts),
    warn(agent.crashedAttempts, colors.yellow),
    tokensText(agent.usage),
    costText(agent.usage),
    wastedText(agent),
  ];
}

function wastedText({ wastedUsage }: AgentSummary): string {
  if (wastedUsage.known === "reported" && totalTokens(wastedUsage) === undefined) return "none";
  return wastedUsage.costUsd === undefined ? tokensText(wastedUsage) : costText(wastedUsage);
}

/** `48/60 80 % [68, 88]`, or `not measured`. */
export function passedText(agent: Pick<AgentSummary, "passed" | "scored" | "passRate" | "interval">): string {
  const { passed, scored, passRate, interval } = agent;
  if (passRate === null || interval === null) return "not measured";
  const [low, high] = interval.map((bound) => Math.round(bound * 100));
  return `${passed}/${scored} ${percent(passRate)} [${low}, ${high}]`;
}

/** Why turns failed: a line for each code, the most frequent first, `auth 1,319: the provider answered 401 (first: TURN)`. */
export function failureLines(failures: Failures): string[] {
  return Object.entries(failures).map(([code, { turns, first, message }]) => {
    const said = harmless(message).replaceAll(/\s+/g, " ").trim();
    const why = said === "" ? "" : `: ${cutText(said, REASON_CHARS)}`;
    return `${code} ${turns.toLocaleString("en-US")}${why} (first: ${first})`;
  });
}

/** What the batch came to, in one line. */
export function summaryLine(summary: Summary): string {
  const { turns, settled, ok, failed, cancelled, expired } = summary;
  const other = [
    ...(cancelled === 0 ? [] : [`${cancelled} cancelled`]),
    ...(expired === 0 ? [] : [`${expired} expired`]),
    ...(summary.truncated === undefined ? [] : [`${counted(summary.truncated, "output")} cut at the limit`]),
    ...(settled === turns ? [] : [`${turns - settled} not settled`]),
    ...(summary.retired === undefined ? [] : [`${summary.retired} more removed by retention`]),
  ];
  const parts = [`${ok} ok`, `${failed} failed`, ...other];
  return `${counted(turns, "turn")} in ${duration(summary.durationMs)}: ${parts.join(", ")}; usage ${usageText(summary.usage)}`;
}
