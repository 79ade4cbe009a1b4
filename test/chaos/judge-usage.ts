import { totalTokens, type Usage } from "../../src/domain/usage.ts";
import type { ClosedAttempt } from "../../src/ledger/ledger.ts";
import type { Evidence, TurnEvidence } from "./evidence.ts";
import type { Violation } from "./judge.ts";
import { attemptKey, spentTokens } from "./truth.ts";

export interface UsageJudgement {
  /** Tokens that were spent and are not booked. */
  readonly gapTokens: number;
  readonly violations: readonly Violation[];
}

/** What is booked for each attempt is what it spent, or less where its usage says that it lacks some. */
export function judgeUsage({ turns, truth }: Evidence): UsageJudgement {
  const spent = spentTokens(truth);
  const violations: Violation[] = [];
  let gapTokens = 0;
  for (const turn of turns) {
    const booked = new Map(turn.attempts.map((attempt) => [attemptKey(turn.id, attempt.attempt), attempt]));
    const started = [...spent.keys()].filter((key) => key.slice(0, key.lastIndexOf("#")) === turn.id);
    for (const key of new Set([...booked.keys(), ...started])) {
      const attempt = booked.get(key);
      const tokens = tokensOf(attempt);
      const due = spent.get(key) ?? 0;
      gapTokens += Math.max(0, due - tokens);
      violations.push(...attemptFaults(turn, key, { attempt, tokens, due }));
    }
    violations.push(...resultFaults(turn));
  }
  return { gapTokens, violations };
}

function tokensOf(attempt: ClosedAttempt | undefined): number {
  if (attempt === undefined) return 0;
  return (totalTokens(attempt.usage) ?? 0) + (attempt.late === undefined ? 0 : (totalTokens(attempt.late) ?? 0));
}

function attemptFaults(
  { id, lane }: TurnEvidence,
  key: string,
  { attempt, tokens, due }: { attempt: ClosedAttempt | undefined; tokens: number; due: number },
): Violation[] {
  const place = { turn: id, lane };
  if (tokens > due) {
    const text = `attempt ${key}: ${tokens} tokens are booked, ${due} were spent`;
    return [{ ...place, verdict: "usageOverTokens", amount: tokens - due, text }];
  }
  if (tokens === due || lacksSome(attempt?.usage)) return [];
  const how =
    attempt === undefined ? "it is not closed" : `its usage is marked "${attempt.usage.known}" (${attempt.status})`;
  const text = `attempt ${key}: ${due} tokens were spent, ${tokens} are booked, and ${how}`;
  return [{ ...place, verdict: "usageGapTokens", amount: due - tokens, text }];
}

function lacksSome(usage: Usage | undefined): boolean {
  return usage !== undefined && usage.known !== "reported";
}

/** A Result's usage is the sum over its attempts, and says when one of them lacks some. */
function resultFaults({ id, lane, results, attempts }: TurnEvidence): Violation[] {
  return results.flatMap(({ generation, result }): Violation[] => {
    const sum = result.attempts.reduce((all, { usage }) => all + (totalTokens(usage) ?? 0), 0);
    const said = totalTokens(result.usage) ?? 0;
    const place = { turn: id, lane };
    const name = `the Result of generation ${generation}`;
    const faults: Violation[] = [];
    if (said > sum)
      faults.push({
        ...place,
        verdict: "usageOverTokens",
        amount: said - sum,
        text: `${name} says ${said} tokens, its attempts ${sum}`,
      });
    if (said < sum)
      faults.push({
        ...place,
        verdict: "usageGapTokens",
        amount: sum - said,
        text: `${name} says ${said} tokens, its attempts ${sum}`,
      });
    const lacking = result.attempts.find(({ usage }) => lacksSome(usage));
    if (lacking !== undefined && !lacksSome(result.usage))
      faults.push({
        ...place,
        verdict: "usageGapTokens",
        amount: 1,
        text: `${name} says that it knows all, attempt ${lacking.attempt} does not`,
      });
    const absent = attempts.filter(
      ({ attempt }) => !results.some((other) => other.result.attempts.some((one) => one.attempt === attempt)),
    );
    if (generation === results.length)
      for (const { attempt } of absent)
        faults.push({ ...place, verdict: "usageGapTokens", amount: 1, text: `attempt ${attempt} is in no Result` });
    return faults;
  });
}
