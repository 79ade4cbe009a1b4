import { setTimeout as sleep } from "node:timers/promises";
import type { Output } from "./output.ts";
import { SettleRate, type ProgressStyle } from "./progress-view.ts";
import { counted } from "./quantity-text.ts";

/** How often it is looked, in ms. */
const EVERY_MS = { terminal: 500, json: 1000, plain: 5000 } as const;

/** What a worker has to do: the JSON line of `work --json`. */
export interface WorkLine {
  readonly type: "work";
  /** Attempts that run in this worker. */
  readonly running: number;
  /** Attempts that ended here since it started, whatever they ended in. */
  readonly ended: number;
  readonly perSecond?: number | undefined;
}

/** A worker's progress in words. */
export function workText({ running, ended, perSecond }: WorkLine): string {
  const rate = perSecond === undefined ? "" : `, ${perSecond.toFixed(1)}/s`;
  return `${running} running, ${counted(ended, "attempt")} done since the start${rate}`;
}

export interface ShowWorkOptions {
  readonly output: Output;
  readonly style: ProgressStyle;
  readonly counts: () => Pick<WorkLine, "running" | "ended">;
  readonly now: () => number;
  /** Ends it. */
  readonly signal: AbortSignal;
}

/** Shows what a worker does until it is aborted; a line only where something has changed, since logs keep them. */
export async function showWork(options: ShowWorkOptions): Promise<void> {
  const { output, style, now, signal } = options;
  if (style === "none") return;
  const rate = new SettleRate();
  let shown = "";
  for (;;) {
    const counts = options.counts();
    rate.see(now(), counts.ended);
    const key = `${counts.running} ${counts.ended}`;
    if (key !== shown && (shown !== "" || key !== "0 0")) {
      shown = key;
      await show(output, style, { type: "work", ...counts, ...perSecondOf(rate) });
    }
    if (signal.aborted) break;
    await sleep(EVERY_MS[style], undefined, { signal }).catch(() => undefined);
  }
  output.live("");
}

function perSecondOf({ perSecond }: SettleRate): Pick<WorkLine, "perSecond"> {
  return perSecond === undefined ? {} : { perSecond: Math.round(perSecond * 100) / 100 };
}

async function show(output: Output, style: Exclude<ProgressStyle, "none">, line: WorkLine): Promise<void> {
  if (style === "json") await output.object(line);
  else if (style === "plain") output.note(workText(line));
  else output.live(workText(line));
}
