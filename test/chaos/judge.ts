import type { Evidence } from "./evidence.ts";
import { judgeLanes, judgeProcesses, judgeSlots } from "./judge-places.ts";
import { judgeSessions, judgeTools } from "./judge-sessions.ts";
import { judgeResults, judgeStarts } from "./judge-turns.ts";
import { judgeUsage } from "./judge-usage.ts";

/** What must be 0, and the gap, of which every token must belong to an attempt that says that it lacks some. */
export const VERDICTS = [
  "lost",
  "duplicated",
  "rerunAfterSettle",
  "usageGapTokens",
  "usageOverTokens",
  "brokenSessions",
  "danglingToolCalls",
  "orphans",
  "leakedSlots",
] as const;
export type Verdict = (typeof VERDICTS)[number];

/** One thing that is as it must not be. */
export interface Violation {
  readonly verdict: Verdict;
  /** What it adds to the figure: tokens of a usage, else 1. */
  readonly amount: number;
  readonly text: string;
  readonly turn?: string | undefined;
  readonly lane?: string | undefined;
}

/** `figures` as the line of the outcome has them; `violations` is empty when all is well. */
export interface Judgement {
  readonly figures: Readonly<Record<Verdict, number>>;
  readonly violations: readonly Violation[];
}

/** Judges a run by what it left. Pure. */
export function judge(evidence: Evidence): Judgement {
  const usage = judgeUsage(evidence);
  const violations: Violation[] = [
    ...judgeResults(evidence),
    ...judgeStarts(evidence),
    ...usage.violations,
    ...judgeSessions(evidence),
    ...judgeTools(evidence),
    ...judgeLanes(evidence),
    ...judgeSlots(evidence),
    ...judgeProcesses(evidence),
  ];
  const figure = (verdict: Verdict): number =>
    violations.reduce((sum, violation) => sum + (violation.verdict === verdict ? violation.amount : 0), 0);
  const figures = Object.fromEntries(VERDICTS.map((verdict) => [verdict, figure(verdict)])) as Record<Verdict, number>;
  // Tokens that are missing are told in any case; they are a violation only where the attempt does not say so.
  return { figures: { ...figures, usageGapTokens: usage.gapTokens }, violations };
}
