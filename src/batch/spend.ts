import { isCrashed, type AttemptStatus } from "../domain/turn-record.ts";
import { NO_USAGE, USAGE_FIELDS, addUsage, exceedingUsage, type Usage } from "../domain/usage.ts";

/** What attempts came to, over all generations, with what became known late. */
export interface Spend {
  readonly attempts: number;
  readonly crashedAttempts: number;
  readonly usage: Usage;
}

/** An attempt as its spend is counted. */
export interface SpentAttempt {
  readonly status: AttemptStatus;
  readonly usage: Usage;
  readonly late?: Usage | undefined;
}

/** Sums the spend of attempts, agent by agent. */
export class SpendFold {
  readonly #agents = new Map<string, Spend>();

  add(agent: string, attempts: readonly SpentAttempt[]): void {
    for (const { status, usage, late } of attempts) {
      const sum = this.#agents.get(agent);
      const own = late === undefined ? usage : addUsage(usage, late);
      this.#agents.set(agent, {
        attempts: (sum?.attempts ?? 0) + 1,
        crashedAttempts: (sum?.crashedAttempts ?? 0) + (isCrashed(status) ? 1 : 0),
        usage: sum === undefined ? own : addUsage(sum.usage, own),
      });
    }
  }

  get byAgent(): ReadonlyMap<string, Spend> {
    return this.#agents;
  }
}

/** True when both are the same amounts. */
export function sameUsage(a: Usage, b: Usage): boolean {
  if (a.known !== b.known) return false;
  return USAGE_FIELDS.every((field) => (a[field] ?? 0) === (b[field] ?? 0));
}

/** The usage that went into no Result's output: all of it beyond that of the `answers`. As well known as the whole. */
export function wastedOf(spend: Spend, answers: Spend): Usage {
  const beyond = exceedingUsage(spend.usage, answers.usage);
  // Where every attempt gave an answer, what was not reported of them was not wasted.
  const known = spend.attempts === answers.attempts ? NO_USAGE.known : spend.usage.known;
  return beyond ?? { ...NO_USAGE, known };
}
