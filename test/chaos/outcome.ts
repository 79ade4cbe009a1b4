import type { Violation } from "./judge.ts";
import type { ChaosOutcome } from "./run.ts";

/** The one line that a run ends with. */
export function outcomeLine(seed: number, { turns, settled, figures, kills, redisKills, cuts }: ChaosOutcome): string {
  const { lost, duplicated, rerunAfterSettle, usageGapTokens, usageOverTokens } = figures;
  const { brokenSessions, danglingToolCalls, orphans, leakedSlots } = figures;
  return JSON.stringify({
    type: "chaos",
    seed,
    turns,
    settled,
    lost,
    duplicated,
    rerunAfterSettle,
    usageGapTokens,
    usageOverTokens,
    brokenSessions,
    danglingToolCalls,
    orphans,
    leakedSlots,
    kills,
    redisKills,
    cuts,
  });
}

/** What a person is told of a violation. */
export function violationText({ verdict, turn, lane, text }: Violation): string {
  const place = [turn === undefined ? undefined : `turn ${turn}`, lane === undefined ? undefined : `lane ${lane}`];
  return [`VIOLATION ${verdict}`, ...place.filter((part) => part !== undefined), text].join(": ");
}
