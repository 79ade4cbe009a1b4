import { z } from "zod";
import { outcomeOf } from "../domain/turn-result.ts";
import { isCrashed } from "../domain/turn-record.ts";
import { NO_USAGE, Usage, addUsage } from "../domain/usage.ts";
import { Failures, FailureTally } from "./failure-tally.ts";
import { Others } from "./others-tally.ts";
import type { ResultLine } from "./result-line.ts";
import { sameUsage, wastedOf, type Spend } from "./spend.ts";
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
  /** Turns whose output was cut at its limit; absent when there are none. */
  truncated: count.optional(),
  attempts: count,
  crashedAttempts: count,
  usage: Usage,
  wastedUsage: Usage,
  failures: Failures,
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

/** What a simulated model has served. */
const Served = z.object({
  requests: count,
  byStatus: z.record(z.string(), count),
  usage: z.object({ inputTokens: count, outputTokens: count, cacheReadTokens: count }),
});

/** What a batch came to. `turns` are all of it, `settled` those that ended: ok + failed + cancelled + expired. */
export const Summary = z.object({
  type: z.literal("summary"),
  batch: z.string(),
  turns: count,
  settled: count,
  /** Turns that retention has removed, which no other count of turns holds; absent when there are none. The batch's attempts and usage hold theirs. */
  retired: count.optional(),
  ...tally,
  /** Of the run that tells it; else from the first start to the last end. */
  durationMs: z.number().nonnegative(),
  byAgent: z.record(z.string(), AgentSummary),
  /** Turns that are not of the batch and were run too; absent when there were none. No other figure holds them. */
  others: Others.optional(),
  /** What the simulator of this run has served: the ground truth for a simulated model's cost. */
  simulated: Served.optional(),
});
export type Summary = z.infer<typeof Summary>;

/** What a summary is told beside the lines. */
export interface SummaryFacts {
  /** How many turns the batch has. */
  readonly turns: number;
  /** Turns among them that retention has removed. */
  readonly retired?: number | undefined;
  /** Of the run that tells it. */
  readonly durationMs?: number | undefined;
  /** The whole batch's spend as the ledger counts it; what the lines hold unless given. */
  readonly spend?: Spend | undefined;
  /** The same by agent; needed where the lines do not hold all of it. */
  readonly spendByAgent?: ReadonlyMap<string, Spend> | undefined;
}

const NOTHING: Spend = { attempts: 0, crashedAttempts: 0, usage: NO_USAGE };

/** Sums for any number of result lines; holds no line. */
class Tally {
  turns = 0;
  durationMs = 0;
  readonly outcomes = { ok: 0, failed: 0, cancelled: 0, expired: 0 };
  readonly scores = { scored: 0, passed: 0 };
  #truncated = 0;
  readonly #failures = new FailureTally();
  #attempts = 0;
  #crashedAttempts = 0;
  // Undefined until the first line: unknown usage must not become partial by being added to nothing.
  #usage: Usage | undefined;
  /** The attempts whose output is a Result's. */
  #answers: Spend | undefined;

  add(line: ResultLine): void {
    this.turns += 1;
    this.durationMs += line.durationMs;
    this.outcomes[outcomeOf(line.status)] += 1;
    this.#failures.add(line);
    if (line.truncated?.includes("output") === true) this.#truncated += 1;
    if (line.score !== null) this.scores.scored += 1;
    if (line.score?.passed === true) this.scores.passed += 1;
    this.#attempts += line.attempts.length;
    this.#crashedAttempts += line.attempts.filter(({ status }) => isCrashed(status)).length;
    // A turn that ended without an attempt spent nothing, and says nothing of what is known.
    if (line.attempts.length > 0 || line.usage.known !== "reported") this.#usage = sumOf(this.#usage, line.usage);
    const answer = line.ok ? line.attempts.at(-1) : undefined;
    if (answer === undefined) return;
    const { attempts, usage } = this.#answers ?? { attempts: 0, usage: undefined };
    this.#answers = { attempts: attempts + 1, crashedAttempts: 0, usage: sumOf(usage, answer.usage) };
  }

  /** The spend that the lines hold. */
  get spend(): Spend {
    return {
      attempts: this.#attempts,
      crashedAttempts: this.#crashedAttempts,
      usage: this.#usage ?? NO_USAGE,
    };
  }

  sums(spend: Spend = this.spend): z.infer<z.ZodObject<typeof tally>> {
    const { attempts, crashedAttempts, usage } = spend;
    const wastedUsage = wastedOf(spend, this.#answers ?? NOTHING);
    const { failures } = this.#failures;
    const truncated = this.#truncated === 0 ? {} : { truncated: this.#truncated };
    const counts = { ...this.outcomes, ...this.scores, ...truncated, attempts, crashedAttempts };
    return { ...counts, usage: { ...usage }, wastedUsage, failures };
  }
}

function sumOf(sum: Usage | undefined, usage: Usage): Usage {
  return sum === undefined ? usage : addUsage(sum, usage);
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

  /** True when the lines hold all of this spend: no generation, no late spend and no open turn has more. */
  accountsFor({ attempts, usage }: Spend): boolean {
    const own = this.#all.spend;
    return own.attempts === attempts && sameUsage(own.usage, usage);
  }

  /** The summary of what was added. */
  summary(facts: SummaryFacts): Summary {
    const between = this.#all.turns === 0 ? 0 : Math.max(0, this.#lastAt - this.#firstAt);
    const { spendByAgent } = facts;
    const names = [...new Set([...this.#agents.keys(), ...(spendByAgent?.keys() ?? [])])];
    const byAgent = names
      .toSorted((a, b) => (a < b ? -1 : 1))
      .map((name) => {
        const spend = spendByAgent === undefined ? undefined : (spendByAgent.get(name) ?? NOTHING);
        return [name, agentSummary(this.#agents.get(name) ?? new Tally(), spend)];
      });
    return {
      type: "summary",
      batch: this.#batch,
      turns: facts.turns - (facts.retired ?? 0),
      ...(facts.retired === undefined || facts.retired === 0 ? {} : { retired: facts.retired }),
      settled: this.#all.turns,
      ...this.#all.sums(facts.spend),
      durationMs: facts.durationMs ?? between,
      byAgent: Object.fromEntries(byAgent),
    };
  }
}

function agentSummary(tallied: Tally, spend: Spend | undefined): AgentSummary {
  const { scored, passed } = tallied.scores;
  return {
    turns: tallied.turns,
    ...tallied.sums(spend),
    passRate: scored === 0 ? null : passed / scored,
    interval: wilson(passed, scored),
    durationMs: tallied.durationMs,
  };
}
