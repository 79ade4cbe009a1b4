import { expect, test } from "vitest";
import type { BatchProgress } from "../../../src/batch-handle.ts";
import { progressLine, progressText, SettleRate, showProgress } from "../../../src/cli/progress-view.ts";
import { Output } from "../../../src/cli/output.ts";
import { TextSink } from "./text-sink.ts";

function progress(more: Partial<BatchProgress> = {}): BatchProgress {
  return {
    batch: "b",
    turns: 120,
    states: { delayed: 2, waiting: 60, parked: 8, running: 7, stopping: 1, settled: 42 },
    outcomes: { ok: 39, failed: 2, cancelled: 0, expired: 1 },
    attempts: 50,
    crashedAttempts: 6,
    scored: 0,
    passed: 0,
    usage: { inputTokens: 12_000, outputTokens: 400, modelCalls: 0, toolCalls: 0, known: "reported" },
    overdue: 0,
    gates: [],
    ...more,
  };
}

test("progress says done, running, waiting, failed, rate, ETA and tokens", () => {
  const rate = new SettleRate();
  rate.see(0, 2);
  rate.see(10_000, 42);
  expect(progressText(progressLine(progress(), rate), 0)).toBe(
    "42/120 done, 8 running, 70 waiting, 3 failed, 4.0/s, ETA 20s, 12.4k tokens",
  );
});

test("turns that wait on a rate limit, and until when; cost so far and projected", () => {
  const gates = [
    { lane: "a", until: 38_000, reason: "rate_limited", waiting: 5 },
    { lane: "b", until: 60_000, reason: "overloaded", waiting: 2 },
  ] as const;
  const usage = { costUsd: 0.42, modelCalls: 42, toolCalls: 0, known: "reported" } as const;
  const line = progressLine(progress({ gates, usage }), new SettleRate());
  expect(line).toMatchObject({
    gated: { turns: 7, until: 38_000 },
    projectedCostUsd: expect.closeTo(1.2, 9) as number,
  });
  expect(progressText(line, 500)).toBe(
    "42/120 done, 8 running, 70 waiting, 3 failed, $0.4200 of about $1.20; 7 turns wait on a rate limit, next in 38s",
  );
});

test("turns of a dead worker are told of, and usage that is a floor", () => {
  const usage = { outputTokens: 5, modelCalls: 0, toolCalls: 0, known: "partial" } as const;
  expect(progressText(progressLine(progress({ overdue: 3, usage }), new SettleRate()), 0)).toBe(
    "42/120 done, 8 running, 70 waiting, 3 failed, ≥ 5 tokens; 3 turns of a dead worker, taken over within 20 s",
  );
});

test("the rate is that of the last seconds, and unknown at first", () => {
  const rate = new SettleRate();
  expect(rate.perSecond).toBeUndefined();
  rate.see(0, 0);
  rate.see(100, 50);
  expect(rate.perSecond).toBeUndefined();
  rate.see(1000, 50);
  expect(rate.perSecond).toBe(50);
  for (let at = 2000; at <= 60_000; at += 1000) rate.see(at, 50);
  expect(rate.perSecond).toBe(0);
});

test("what does not settle has no ETA", () => {
  const rate = new SettleRate();
  rate.see(0, 42);
  rate.see(10_000, 42);
  expect(progressLine(progress(), rate).etaMs).toBeUndefined();
});

test("plain progress goes to stderr, JSON to stdout, none nowhere; an answer that Redis does not give is left out", async () => {
  for (const style of ["plain", "json", "none"] as const) {
    const [stdout, stderr] = [new TextSink(), new TextSink()];
    const ended = new AbortController();
    let asked = 0;
    await showProgress({
      output: new Output(stdout, stderr),
      style,
      progress: () => {
        asked += 1;
        // Ends the wait that follows; the last look of plain progress is refused.
        queueMicrotask(() => setImmediate(() => ended.abort()));
        return asked === 1 ? Promise.resolve(progress()) : Promise.reject(new Error("away"));
      },
      now: () => 0,
      signal: ended.signal,
    });
    expect(stderr.text).toBe(style === "plain" ? "42/120 done, 8 running, 70 waiting, 3 failed, 12.4k tokens\n" : "");
    expect(stdout.text).toMatch(style === "json" ? /^\{"type":"progress","batch":"b",.*\}\n$/ : /^$/);
  }
});
