import { setTimeout as sleep } from "node:timers/promises";
import prettyMs from "pretty-ms";
import type { BatchProgress } from "../batch-handle.ts";
import { wholeCost } from "../domain/cost.ts";
import { totalTokens } from "../domain/usage.ts";
import type { Output } from "./output.ts";
import { counted, dollars, shortNumber } from "./quantity-text.ts";

/** Over how long the rate is taken, in ms. */
const RATE_OVER_MS = 20_000;
/** The least time that says anything about a rate, in ms. */
const RATE_AFTER_MS = 500;
/** How often it is looked, in ms: on a terminal, as JSON. Plain lines come at most every 5 s. */
const TERMINAL_EVERY_MS = 500;
const JSON_EVERY_MS = 1000;
const PLAIN_EVERY_MS = 5000;
const BAR_CELLS = 20;

/** How fast turns settle, over the last seconds. */
export class SettleRate {
  readonly #points: { readonly at: number; readonly settled: number }[] = [];

  see(at: number, settled: number): void {
    this.#points.push({ at, settled });
    while (this.#points.length > 2 && at - (this.#points[0]?.at ?? at) > RATE_OVER_MS) this.#points.shift();
  }

  /** Turns per second; undefined while too little is known. */
  get perSecond(): number | undefined {
    const [first, last] = [this.#points[0], this.#points.at(-1)];
    if (first === undefined || last === undefined || last.at - first.at < RATE_AFTER_MS) return undefined;
    return Math.max(0, ((last.settled - first.settled) * 1000) / (last.at - first.at));
  }
}

/** The figures of a batch as progress shows them, and the JSON line of `--json`. */
export interface ProgressLine {
  readonly type: "progress";
  readonly batch: string;
  readonly turns: number;
  readonly settled: number;
  readonly running: number;
  readonly waiting: number;
  readonly failed: number;
  readonly attempts: number;
  readonly crashedAttempts: number;
  readonly overdue: number;
  /** Turns that wait on a provider's limit, and when the first of their gates opens, epoch ms. */
  readonly gated?: { readonly turns: number; readonly until: number } | undefined;
  readonly usage: BatchProgress["usage"];
  readonly perSecond?: number | undefined;
  readonly etaMs?: number | undefined;
  /** What the whole batch will have cost if the rest costs what the settled turns did, US dollars. */
  readonly projectedCostUsd?: number | undefined;
}

/** What progress says of a batch. */
export function progressLine(progress: BatchProgress, rate: SettleRate): ProgressLine {
  const { batch, turns, states, outcomes, overdue, gates, attempts, crashedAttempts, usage } = progress;
  const { perSecond } = rate;
  const left = turns - states.settled;
  const { costUsd } = usage;
  return {
    type: "progress",
    batch,
    turns,
    settled: states.settled,
    running: states.running + states.stopping,
    waiting: states.waiting + states.delayed + states.parked,
    failed: outcomes.failed + outcomes.expired,
    attempts,
    crashedAttempts,
    overdue,
    ...(gates.length === 0
      ? {}
      : {
          gated: {
            turns: gates.reduce((sum, { waiting }) => sum + waiting, 0),
            until: Math.min(...gates.map(({ until }) => until)),
          },
        }),
    usage,
    ...(costUsd === undefined || states.settled === 0 || left === 0
      ? {}
      : { projectedCostUsd: wholeCost((costUsd / states.settled) * turns) }),
    ...(perSecond === undefined ? {} : { perSecond: Math.round(perSecond * 100) / 100 }),
    ...(perSecond === undefined || perSecond === 0 || left === 0
      ? {}
      : { etaMs: Math.round((left * 1000) / perSecond) }),
  };
}

/** Progress in words. */
export function progressText(line: ProgressLine, now: number): string {
  const tokens = totalTokens(line.usage);
  const floor = line.usage.known === "reported" ? "" : "≥ ";
  const { costUsd } = line.usage;
  const parts = [
    `${line.settled}/${line.turns} done`,
    `${line.running} running`,
    `${line.waiting} waiting`,
    `${line.failed} failed`,
    ...(line.perSecond === undefined ? [] : [`${line.perSecond.toFixed(1)}/s`]),
    ...(line.etaMs === undefined ? [] : [`ETA ${prettyMs(Math.ceil(line.etaMs / 1000) * 1000)}`]),
    ...(tokens === undefined ? [] : [`${floor}${shortNumber(tokens)} tokens`]),
    ...(costUsd === undefined ? [] : [`${floor}${dollars(costUsd)}${projected(line)}`]),
  ];
  const dead = line.overdue === 0 ? "" : `; ${counted(line.overdue, "turn")} of a dead worker, taken over within 20 s`;
  return `${parts.join(", ")}${gatedText(line, now)}${dead}`;
}

function projected({ projectedCostUsd }: ProgressLine): string {
  return projectedCostUsd === undefined ? "" : ` of about ${dollars(projectedCostUsd)}`;
}

function gatedText({ gated }: ProgressLine, now: number): string {
  if (gated === undefined) return "";
  const nextMs = Math.max(0, gated.until - now);
  return `; ${counted(gated.turns, "turn")} wait on a rate limit, next in ${prettyMs(Math.ceil(nextMs / 1000) * 1000)}`;
}

function bar(line: ProgressLine): string {
  const filled = line.turns === 0 ? 0 : Math.floor((BAR_CELLS * line.settled) / line.turns);
  return `[${"#".repeat(filled)}${"-".repeat(BAR_CELLS - filled)}]`;
}

export type ProgressStyle = "terminal" | "plain" | "json" | "none";

/** How a command shows progress. */
export function progressStyle(
  output: Pick<Output, "isTerminal">,
  { json, quiet }: { readonly json?: boolean | undefined; readonly quiet?: boolean | undefined },
): ProgressStyle {
  if (quiet === true) return "none";
  if (json === true) return "json";
  return output.isTerminal ? "terminal" : "plain";
}

export interface ShowProgressOptions {
  readonly output: Output;
  readonly style: ProgressStyle;
  readonly progress: () => Promise<BatchProgress>;
  readonly now: () => number;
  /** Ends it. */
  readonly signal: AbortSignal;
}

/** Shows where a batch is until it is aborted. An answer that Redis does not give is left out. Never rejects for that. */
export async function showProgress(options: ShowProgressOptions): Promise<void> {
  const { output, style, now, signal } = options;
  if (style === "none") return;
  const everyMs = { terminal: TERMINAL_EVERY_MS, json: JSON_EVERY_MS, plain: PLAIN_EVERY_MS }[style];
  const rate = new SettleRate();
  for (;;) {
    const progress = await options.progress().catch(() => undefined);
    // Plain lines are kept in logs, so they end with how it ended; elsewhere a summary takes their place.
    if (signal.aborted && style !== "plain") break;
    if (progress !== undefined) {
      rate.see(now(), progress.states.settled);
      await show(output, style, progressLine(progress, rate), now());
    }
    if (signal.aborted) break;
    await sleep(everyMs, undefined, { signal }).catch(() => undefined);
  }
  output.live("");
}

async function show(
  output: Output,
  style: Exclude<ProgressStyle, "none">,
  line: ProgressLine,
  now: number,
): Promise<void> {
  if (style === "json") await output.object(line);
  else if (style === "plain") output.note(progressText(line, now));
  else output.live(`${bar(line)} ${progressText(line, now)}`);
}
