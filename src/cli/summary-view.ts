import Table from "cli-table3";
import type { AgentSummary, Summary } from "../batch/summary.ts";
import type { Colors } from "./output.ts";
import { counted, duration, percent, usageText } from "./quantity-text.ts";

const HEAD = ["agent", "turns", "ok", "failed", "passed (95 %)", "attempts", "crashed", "time", "wasted usage"];

// No vertical lines: the table has to fit 80 columns.
const CHARS = {
  top: "",
  "top-mid": "",
  "top-left": "",
  "top-right": "",
  bottom: "",
  "bottom-mid": "",
  "bottom-left": "",
  "bottom-right": "",
  left: "",
  "left-mid": "",
  mid: "",
  "mid-mid": "",
  right: "",
  "right-mid": "",
  middle: "  ",
} as const;

/** A table with a row for each agent. Times are sums over an agent's turns. */
export function summaryTable(summary: Summary, colors: Colors): string {
  const table = new Table({
    chars: CHARS,
    style: { head: [], border: [], compact: true, "padding-left": 0, "padding-right": 0 },
    colAligns: ["left", ...HEAD.slice(1).map(() => "right" as const)],
  });
  table.push(HEAD.map((title) => colors.bold(title)));
  for (const [name, agent] of Object.entries(summary.byAgent)) table.push(row(name, agent, colors));
  return table.toString().replaceAll(/[ \t]+$/gm, "");
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
    duration(agent.durationMs),
    usageText(agent.wastedUsage),
  ];
}

/** `48/60 80 % [68, 88]`, or `not measured`. */
export function passedText(agent: Pick<AgentSummary, "passed" | "scored" | "passRate" | "interval">): string {
  const { passed, scored, passRate, interval } = agent;
  if (passRate === null || interval === null) return "not measured";
  const [low, high] = interval.map((bound) => Math.round(bound * 100));
  return `${passed}/${scored} ${percent(passRate)} [${low}, ${high}]`;
}

/** What the batch came to, in one line. */
export function summaryLine(summary: Summary): string {
  const { turns, settled, ok, failed, cancelled, expired } = summary;
  const other = [
    ...(cancelled === 0 ? [] : [`${cancelled} cancelled`]),
    ...(expired === 0 ? [] : [`${expired} expired`]),
    ...(settled === turns ? [] : [`${turns - settled} not settled`]),
  ];
  const parts = [`${ok} ok`, `${failed} failed`, ...other];
  return `${counted(turns, "turn")} in ${duration(summary.durationMs)}: ${parts.join(", ")}; usage ${usageText(summary.usage)}`;
}
