import { cooperativeDeadlineMs, type Limits } from "../domain/limits.ts";
import type { StopReason } from "../domain/stop-reason.ts";
import { wholeCost } from "../domain/cost.ts";
import type { EventBody } from "../domain/turn-event.ts";
import { totalTokens } from "../domain/usage.ts";
import { systemClock, type Clock } from "./deadline.ts";
import type { StopRequest } from "./verdict.ts";

/** What a turn has used, for its limits. */
export interface Spent {
  readonly steps: number;
  readonly toolCalls: number;
  readonly tokens: number;
  /** US dollars, as far as they are known. */
  readonly costUsd: number;
}

/** What a criterion sees: what was used over all attempts, and the time of this one. */
export interface TurnProgress extends Spent {
  readonly elapsedMs: number;
}

/** Answers true when the turn has done enough. */
export type Criterion = (progress: TurnProgress) => boolean;

export interface MonitorOptions {
  readonly limits: Limits;
  /** What earlier attempts of this generation used. */
  readonly before?: Spent | undefined;
  readonly criteria?: readonly Criterion[] | undefined;
  readonly clock?: Clock | undefined;
}

/**
 * Answers `shouldStop` for all causes, one per attempt. The first answer is kept: a request of the
 * worker, the cooperative deadline, a criterion, a limit, in this order. A criterion that throws
 * disarms all criteria: a false stop is worse than none.
 */
export class TurnMonitor {
  readonly #limits: Limits;
  readonly #clock: Clock;
  readonly #startedMs: number;
  #criteria: readonly Criterion[];
  #steps: number;
  #toolCalls: number;
  readonly #tokensBefore: number;
  #tokens = 0;
  readonly #costBefore: number;
  #costUsd = 0;
  #requested: StopRequest | undefined;
  #answer: StopReason | undefined;

  /** The deadline counts from here. */
  constructor(options: MonitorOptions) {
    this.#limits = options.limits;
    this.#criteria = options.criteria ?? [];
    this.#clock = options.clock ?? systemClock;
    this.#startedMs = this.#clock.monotonicMs();
    this.#steps = options.before?.steps ?? 0;
    this.#toolCalls = options.before?.toolCalls ?? 0;
    this.#tokensBefore = options.before?.tokens ?? 0;
    this.#costBefore = options.before?.costUsd ?? 0;
  }

  /** What `shouldStop` has answered. */
  get answer(): StopReason | undefined {
    return this.#answer;
  }

  /** What was used over all attempts. A figure never shrinks, whatever an agent reports. */
  get spent(): Spent {
    return {
      steps: this.#steps,
      toolCalls: this.#toolCalls,
      tokens: this.#tokensBefore + this.#tokens,
      costUsd: wholeCost(this.#costBefore + this.#costUsd),
    };
  }

  /** Takes note of what the agent does. Steps count when they have ended, tool calls when they begin. */
  observe(event: EventBody): void {
    switch (event.type) {
      case "step_end":
        if (event.parentThreadId === undefined) this.#steps += 1;
        return;
      case "tool_start":
        this.#toolCalls += 1;
        return;
      case "usage":
        this.#tokens = Math.max(this.#tokens, totalTokens(event.usage) ?? 0);
        this.#costUsd = Math.max(this.#costUsd, event.usage.costUsd ?? 0);
        return;
      default:
        return;
    }
  }

  /** Asks for a stop; the first request is kept. */
  requestStop(reason: StopRequest): void {
    this.#requested ??= reason;
  }

  /** Never throws. */
  readonly shouldStop = (): StopReason | undefined => {
    this.#answer ??= this.#requested ?? this.#ownReason();
    return this.#answer;
  };

  #ownReason(): StopReason | undefined {
    const { maxSteps, maxToolCalls, maxTokens, maxCostUsd } = this.#limits;
    const elapsedMs = this.#clock.monotonicMs() - this.#startedMs;
    if (elapsedMs >= cooperativeDeadlineMs(this.#limits)) return "deadline";
    const { steps, toolCalls, tokens, costUsd } = this.spent;
    if (this.#isEnough({ steps, toolCalls, tokens, costUsd, elapsedMs })) return "criterion";
    if (maxSteps !== undefined && steps >= maxSteps) return "max_steps";
    if (maxToolCalls !== undefined && toolCalls >= maxToolCalls) return "max_tool_calls";
    if (maxTokens !== undefined && tokens >= maxTokens) return "max_tokens";
    if (maxCostUsd !== undefined && costUsd >= maxCostUsd) return "max_cost";
    return undefined;
  }

  #isEnough(progress: TurnProgress): boolean {
    try {
      return this.#criteria.some((criterion) => criterion(progress));
    } catch {
      this.#criteria = [];
      return false;
    }
  }
}
