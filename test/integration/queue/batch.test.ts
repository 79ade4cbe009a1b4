import { afterAll, beforeAll, expect, test } from "vitest";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { sameUsage } from "../../../src/batch/spend.ts";
import { resultCsv, resultCsvHead } from "../../../src/batch/result-csv.ts";
import type { ResultLine } from "../../../src/batch/result-line.ts";
import { SummaryFold, type Summary } from "../../../src/batch/summary.ts";
import type { Batch } from "../../../src/batch-handle.ts";
import { sumUsage } from "../../../src/domain/usage.ts";
import { laneKey } from "../../../src/ledger/keys.ts";
import { throwAwayRedis, type ThrowAwayRedis } from "../../redis.ts";
import { Scene, until } from "./scene.ts";

let server: ThrowAwayRedis;
let scene: Scene;
beforeAll(async () => {
  server = await throwAwayRedis({ appendfsync: "no" });
  scene = await Scene.open(server.url);
});
afterAll(async () => {
  await scene.close();
  await server.stop();
});

async function summaryOf(batch: Batch): Promise<{ readonly summary: Summary; readonly whole: boolean }> {
  const fold = new SummaryFold(batch.id);
  for await (const line of batch.results()) fold.add(line);
  const spend = await batch.progress();
  const spendByAgent = await batch.spendByAgent();
  return { summary: fold.summary({ turns: spend.turns, spend, spendByAgent }), whole: fold.accountsFor(spend) };
}

function addsUp({ byAgent, ...total }: Summary): void {
  const agents = Object.values(byAgent);
  expect(agents.reduce((sum, { attempts }) => sum + attempts, 0)).toBe(total.attempts);
  expect(agents.reduce((sum, { crashedAttempts }) => sum + crashedAttempts, 0)).toBe(total.crashedAttempts);
  expect(sameUsage(sumUsage(agents.map(({ usage }) => usage)), total.usage)).toBe(true);
  expect(sameUsage(sumUsage(agents.map(({ wastedUsage }) => wastedUsage)), total.wastedUsage)).toBe(true);
}

test("invariant 3: a batch's summary has the spend of every generation and late spend, and agrees with its progress", async () => {
  let mended = false;
  const spending = (name: string) =>
    defineAgent(name, ({ input, emit }) => {
      emit.usage({ inputTokens: 10, costUsd: 0.1 });
      if (input === "bad" && !mended) throw new Error("boom");
      return "fine";
    });
  await scene.worker([spending("one"), spending("two")]);
  const items = [{ input: "good" }, { input: "bad" }].map((item) => ({ ...item, retry: { maxAttempts: 1 } }));
  const batch = await scene.turnq.submitMany(items, { batch: "spent", agents: ["one", "two"] });
  const settled = async (): Promise<boolean> => (await batch.progress()).states.settled === 4;
  await until(settled, "the end of all turns");
  const first = await summaryOf(batch);
  expect(first).toMatchObject({ whole: true, summary: { ok: 2, failed: 2, attempts: 4, crashedAttempts: 2 } });
  addsUp(first.summary);

  mended = true;
  expect(await batch.retry()).toBe(2);
  await until(settled, "the end of the new generations");
  expect(await batch.retry()).toBe(0);
  const { summary, whole } = await summaryOf(batch);
  expect(whole).toBe(false);
  expect(summary).toMatchObject({
    ok: 4,
    attempts: 6,
    crashedAttempts: 2,
    usage: { inputTokens: 60 },
    wastedUsage: { inputTokens: 20 },
    byAgent: { one: { attempts: 3, crashedAttempts: 1, usage: { inputTokens: 30 } } },
  });
  addsUp(summary);

  // As the ledger books it: beside the attempt, and in the batch's counts.
  const late = { inputTokens: 7, modelCalls: 0, toolCalls: 0, known: "reported" } as const;
  const { rev } = await scene.ledger("one").facts("spent:1:one:1");
  const spend = { turn: "spent:1:one:1", attempt: 1, rev, before: undefined, more: late };
  expect(await scene.ledger("one").bookLate(spend)).toBe(true);
  const after = await summaryOf(batch);
  expect(after.summary).toMatchObject({ usage: { inputTokens: 67 }, wastedUsage: { inputTokens: 27 } });
  addsUp(after.summary);

  const turn = await scene.turnq.turn("spent:2:one:1");
  expect(await turn.result({ generation: 1 })).toMatchObject({ ok: false, generation: 1, error: "boom" });
  expect(await turn.result({ waitMs: 0 })).toMatchObject({ ok: true, generation: 2 });
  await expect(turn.result({ generation: 3 })).rejects.toMatchObject({ code: "not_found" });
});

test("only lanes that hold turns of the batch are looked at for attempts of dead workers", async () => {
  await scene.publish(
    defineAgent("mine", () => ""),
    defineAgent("other", () => ""),
  );
  const batch = await scene.turnq.submitMany([{ input: "x" }], { batch: "mine", agents: ["mine"] });
  await scene.turnq.submitMany([{ input: "x" }], { batch: "other", agents: ["other"] });
  // Leases that ended long ago.
  await scene.redis.zadd(laneKey("other", "leases"), 1, "t1");
  expect(await batch.progress()).toMatchObject({ turns: 1, overdue: 0 });
  await scene.redis.zadd(laneKey("mine", "leases"), 1, "t1");
  expect(await batch.progress()).toMatchObject({ overdue: 1 });
  expect(await batch.lanes()).toEqual(["mine"]);
});

test("U22: an answer that was cut at its limit says so in the record, the Result, its line, its score, the CSV and the summary", async () => {
  const wordy = defineAgent("wordy", ({ emit }) => {
    for (let i = 0; i < 500; i++) emit.text("42 is ");
  });
  await scene.worker([wordy]);
  const expect2 = [{ type: "number" as const }, { type: "includes" as const }];
  const items = [1000, 3000].map((maxTranscriptChars) => {
    return { id: `m${maxTranscriptChars}`, input: "x", target: 42, expect: expect2, limits: { maxTranscriptChars } };
  });
  const batch = await scene.turnq.submitMany(items, { batch: "cut", agents: ["wordy"] });
  await until(async () => (await batch.progress()).states.settled === 2, "the end of all turns");

  const { summary } = await summaryOf(batch);
  expect(summary).toMatchObject({ ok: 2, scored: 2, passed: 1, truncated: 1, byAgent: { wordy: { truncated: 1 } } });
  const lines = new Map<string, ResultLine>();
  for await (const line of batch.results()) lines.set(line.sample, line);
  expect(lines.get("m3000")).not.toHaveProperty("truncated");
  const cut = lines.get("m1000");
  const note = "the output was cut at its limit";
  expect(cut).toMatchObject({
    ok: true,
    truncated: ["output", "transcript"],
    score: {
      value: 0.5,
      checks: [
        { passed: false, note },
        { passed: true, note },
      ],
    },
  });
  const handle = await scene.turnq.turn(cut?.turn ?? "");
  expect(await handle.result()).toMatchObject({ truncated: ["output", "transcript"] });
  expect(await handle.record(1)).toMatchObject({ truncated: ["output", "transcript"] });
  const [head, row] = [resultCsvHead(), cut === undefined ? "" : resultCsv(cut)].map((text) =>
    text.replaceAll(/"[^"]*"/g, "…").split(","),
  );
  expect(row?.[head?.indexOf("truncated") ?? -1]).toBe("output transcript");
});

test("U25, invariant 3: what a batch cost is to the billionth of a dollar the sum of its turns', its attempts' and its agents'", async () => {
  const COSTS = [0.1, 0.2, 0.7, 0.001, 1e-9, 1 / 3];
  const dusty = (name: string) =>
    defineAgent(name, ({ text, attempt, emit }) => {
      for (const costUsd of COSTS) emit.usage({ inputTokens: 1, costUsd: costUsd * (Number(text) + 1) });
      if (attempt === 1) throw new Error("once more");
      return "fine";
    });
  await scene.worker([dusty("left"), dusty("right")]);
  const items = Array.from({ length: 6 }, (_, i) => ({ input: String(i), retry: { backoff: { delayMs: 1 } } }));
  const batch = await scene.turnq.submitMany(items, { batch: "dust", agents: ["left", "right"] });
  await until(async () => (await batch.progress()).states.settled === 12, "the end of all turns");

  const { summary, whole } = await summaryOf(batch);
  const parts = items.flatMap((_, i) => COSTS.map((cost) => Math.round(cost * (i + 1) * 1e9)));
  const costUsd = (4 * parts.reduce((sum, part) => sum + part, 0)) / 1e9;
  expect(whole).toBe(true);
  expect([summary.usage.costUsd, (await batch.progress()).usage.costUsd]).toEqual([costUsd, costUsd]);
  addsUp(summary);
  const lines: ResultLine[] = [];
  for await (const line of batch.results()) lines.push(line);
  expect(sumUsage(lines.map(({ usage }) => usage)).costUsd).toBe(costUsd);
  expect(sumUsage(lines.flatMap(({ attempts }) => attempts.map(({ usage }) => usage))).costUsd).toBe(costUsd);
  expect(sumUsage(lines.map(({ wastedUsage }) => wastedUsage))).toEqual(summary.wastedUsage);
});
