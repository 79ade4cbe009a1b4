import { z } from "zod";
import { outcomeOf } from "../domain/turn-result.ts";
import type { AttemptStatus } from "../domain/turn-record.ts";
import { NO_USAGE, Usage, addUsage } from "../domain/usage.ts";
import type { ResultLine } from "./result-line.ts";
import { wilson } from "./wilson.ts";

const count = z.number().int().nonnegative();

const tally = {
  ok: count,
  failed: count,
  cancelled: count,
  expired: count,
  /** Turns that have a score. A failed turn with checks is one, and a miss. */
  scored: count,
  passed: count,
  attempts: count,
  crashedAttempts: count,
  usage: Usage,
  wastedUsage: Usage,
};

/** One agent's share of a batch. `turns` are its settled ones; `durationMs` is the sum of their durations. */
export const AgentSummary = z.object({
  turns: count,
  ...tally,
  /** passed / scored; null when nothing was measured. */
  passRate: z.number().nullable(),
  /** The 95 % interval of the pass rate. */
  interval: z.tuple([z.number(), z.number()]).nullable(),
  durationMs: z.number().nonnegative(),
});
export type AgentSummary = z.infer<typeof AgentSummary>;

/** What a batch came to. `turns` are all of it, `settled` those that ended: ok + failed + cancelled + expired. */
export const Summary = z.object({
  type: z.literal("summary"),
  batch: z.string(),
  turns: count,
  settled: count,
  ...tally,
  /** Of the run that tells it; else from the first start to the last end. */
  durationMs: z.number().nonnegative(),
  byAgent: z.record(z.string(), AgentSummary),
});
export type Summary = z.infer<typeof Summary>;

const CRASHED: ReadonlySet<AttemptStatus> = new Set(["crashed", "timeout", "lost"]);

/** Sums for any number of result lines; holds no line. */
class Tally {
  turns = 0;
  durationMs = 0;
  readonly outcomes = { ok: 0, failed: 0, cancelled: 0, expired: 0 };
  readonly counts = { scored: 0, passed: 0, attempts: 0, crashedAttempts: 0 };
  // Undefined until the first line: unknown usage must not become partial by being added to nothing.
  #usage: Usage | undefined;
  #wasted: Usage | undefined;

  add(line: ResultLine): void {
    this.turns += 1;
    this.durationMs += line.durationMs;
    this.outcomes[outcomeOf(line.status)] += 1;
    if (line.score !== null) this.counts.scored += 1;
    if (line.score?.passed === true) this.counts.passed += 1;
    this.counts.attempts += line.attempts.length;
    this.counts.crashedAttempts += line.attempts.filter((attempt) => CRASHED.has(attempt.status)).length;
    this.#usage = this.#usage === undefined ? line.usage : addUsage(this.#usage, line.usage);
    this.#wasted = this.#wasted === undefined ? line.wastedUsage : addUsage(this.#wasted, line.wastedUsage);
  }

  sums(): z.infer<z.ZodObject<typeof tally>> {
    const [usage, wastedUsage] = [this.#usage ?? NO_USAGE, this.#wasted ?? NO_USAGE];
    return { ...this.outcomes, ...this.counts, usage: { ...usage }, wastedUsage: { ...wastedUsage } };
  }
}

/** Folds result lines into a summary, in memory that grows with the agents only. */
export class SummaryFold {
  readonly #batch: string;
  readonly #all = new Tally();
  readonly #agents = new Map<string, Tally>();
  #firstAt = Number.POSITIVE_INFINITY;
  #lastAt = Number.NEGATIVE_INFINITY;

  constructor(batch: string) {
    this.#batch = batch;
  }

  add(line: ResultLine): void {
    this.#all.add(line);
    const agent = this.#agents.get(line.agent) ?? new Tally();
    this.#agents.set(line.agent, agent);
    agent.add(line);
    this.#firstAt = Math.min(this.#firstAt, line.startedAt ?? line.endedAt);
    this.#lastAt = Math.max(this.#lastAt, line.endedAt);
  }

  /** The summary of what was added. `turns`: how many the batch has; `durationMs`: of the run that tells it. */
  summary(facts: { readonly turns: number; readonly durationMs?: number | undefined }): Summary {
    const between = this.#all.turns === 0 ? 0 : Math.max(0, this.#lastAt - this.#firstAt);
    const byAgent = [...this.#agents]
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, agent]) => [name, agentSummary(agent)]);
    return {
      type: "summary",
      batch: this.#batch,
      turns: facts.turns,
      settled: this.#all.turns,
      ...this.#all.sums(),
      durationMs: facts.durationMs ?? between,
      byAgent: Object.fromEntries(byAgent),
    };
  }
}

function agentSummary(tallied: Tally): AgentSummary {
  const { scored, passed } = tallied.counts;
  return {
    turns: tallied.turns,
    ...tallied.sums(),
    passRate: scored === 0 ? null : passed / scored,
    interval: wilson(passed, scored),
    durationMs: tallied.durationMs,
  };
}
