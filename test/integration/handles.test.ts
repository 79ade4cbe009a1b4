import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { openTurnq } from "../../src/app.ts";
import { defineAgent } from "../../src/agent/define-agent.ts";
import type { RetryWhich } from "../../src/batch-handle.ts";
import { findWork } from "../../src/cli/find-work.ts";
import type { TurnRow } from "../../src/ledger/ledger.ts";
import type { TurnFilter } from "../../src/queue/turn-list.ts";
import type { Turnq } from "../../src/turnq.ts";
import { throwAwayRedis, type ThrowAwayRedis } from "../redis.ts";

/** Does as its input says. */
const does = defineAgent("does", ({ input }) => {
  if (input === "fail") throw new Error("it failed");
  return Promise.resolve("done");
});
const held = new Set<string>();
/** Goes on until it is stopped. */
const holds = defineAgent("holds", async ({ turn, signal }) => {
  held.add(turn);
  await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
  return "stopped";
});
const ITEMS = [
  { id: "good", input: "work", target: "done", expect: [{ type: "equals" }] },
  { id: "miss", input: "work", target: "other", expect: [{ type: "equals" }] },
  { id: "fail", input: "fail", retry: { maxAttempts: 1 } },
];

let redis: ThrowAwayRedis;
/** Submits and looks. */
let turnq: Turnq;
/** Works. */
let other: Turnq;

beforeAll(async () => {
  redis = await throwAwayRedis();
  [turnq, other] = (await Promise.all(
    [1, 2].map(() => openTurnq({ redis: redis.url, agents: [does, holds], env: {} })),
  )) as [Turnq, Turnq];
});
afterAll(async () => {
  await Promise.all([turnq.close(), other.close()]);
  await redis.stop();
});

async function listed(filter: TurnFilter): Promise<TurnRow[]> {
  const rows: TurnRow[] = [];
  for await (const row of turnq.turns.list(filter)) rows.push(row);
  return rows;
}

async function samples(filter: TurnFilter): Promise<(string | undefined)[]> {
  return (await listed(filter)).map(({ sample }) => sample);
}

async function settle(batch: string): Promise<void> {
  for await (const _line of turnq.batch(batch).results({ follow: true }));
}

async function cancelBatch(batch: string): Promise<unknown> {
  let last: unknown;
  for await (last of turnq.batch(batch).cancel({ reason: "enough" }));
  return last;
}

describe("a store with a batch that has ended, one that runs and single turns", () => {
  beforeAll(async () => {
    const worker = other.worker({ agents: [does, holds], concurrency: 2 });
    await worker.start();
    await turnq.submitMany(ITEMS, { batch: "ended", agents: ["does"] });
    await settle("ended");
    await turnq.submitMany(
      [1, 2, 3].map((n) => ({ id: `h${n}`, input: "x" })),
      { batch: "open", agents: ["holds"] },
    );
    await vi.waitFor(() => expect(held.size).toBe(2), { timeout: 30_000 });
    await turnq.submit({ id: "s1", agent: "holds", session: "s", input: "x" });
    await turnq.submit({ id: "s2", agent: "holds", session: "s", input: "x" });
    await turnq.submit({ id: "later", agent: "holds", input: "x", delayMs: 3_600_000 });
  });

  test("turns.list takes every field of its filter, alone and together", async () => {
    expect(await samples({ batch: "ended" })).toEqual(["good", "miss", "fail"]);
    expect(await samples({ batch: "ended", outcome: "failed" })).toEqual(["fail"]);
    expect(new Set(await samples({ state: "running" }))).toEqual(new Set(["h1", "h2"]));
    expect((await listed({ session: "s" })).map(({ id, state }) => [id, state])).toEqual([
      ["s1", "waiting"],
      ["s2", "parked"],
    ]);
    expect((await listed({ lane: "holds", state: "delayed" })).map(({ id }) => id)).toEqual(["later"]);
    expect(await listed({ agent: "does", lane: "holds" })).toEqual([]);
    expect(new Set(await samples({ outcome: "ok" }))).toEqual(new Set(["good", "miss"]));
    expect(await listed({ lane: "no-such-lane" })).toEqual([]);
    expect(await listed({ batch: "no-such-batch" })).toEqual([]);
  });

  test("turns.list gives every turn once, what goes on first, and no more than its limit", async () => {
    const all = await listed({ lane: "holds" });
    expect(all.map(({ state }) => state)).toEqual(["running", "running", "waiting", "waiting", "delayed", "parked"]);
    expect(new Set(all.map(({ id }) => id)).size).toBe(6);
    expect(await listed({ lane: "holds", limit: 2 })).toEqual(all.slice(0, 2));
    expect(await listed({ limit: 0 })).toEqual([]);
  });

  test("turns.list misses no turn while others leave the state that is listed", async () => {
    const many = Array.from({ length: 250 }, (_, i) => ({
      id: String(i + 1),
      input: "x",
      lane: "many",
      agent: "does",
    }));
    await turnq.submitMany(many, { batch: "many" });
    const seen = new Set<string | undefined>();
    for await (const { id, sample } of turnq.turns.list({ lane: "many", state: "waiting" })) {
      expect(seen).not.toContain(sample);
      seen.add(sample);
      await (await turnq.turns.get(id)).cancel();
    }
    expect(seen.size).toBe(250);
  });

  test("turns.get gives a handle from any process, and says not_found", async () => {
    const [row] = await listed({ batch: "ended", outcome: "failed" });
    expect(await (await other.turns.get(row?.id ?? "")).result()).toMatchObject({ ok: false, error: "it failed" });
    await expect(turnq.turns.get("nothing")).rejects.toMatchObject({ code: "not_found" });
  });

  test("the same id on two lanes is ambiguous until one is named", async () => {
    for (const lane of ["one", "two"]) await turnq.submit({ id: "twin", agent: "does", lane, input: "x" });
    await expect(turnq.turns.get("twin")).rejects.toMatchObject({ code: "ambiguous" });
    expect((await turnq.turns.get("twin", { lane: "two" })).lane).toBe("two");
  });

  test("an id that a batch and a turn have is ambiguous on the command line until the turn's lane is named", async () => {
    await turnq.submit({ id: "ended", agent: "does", lane: "one", input: "x" });
    await expect(findWork(turnq, "ended")).rejects.toMatchObject({
      code: "ambiguous",
      hint: expect.stringContaining("--lane one") as string,
    });
    expect(await findWork(turnq, "ended", { lane: "one" })).toMatchObject({ kind: "turn" });
    expect(await findWork(turnq, "open")).toMatchObject({ kind: "batch" });
    await expect(findWork(turnq, "ended", { lane: "two" })).resolves.toMatchObject({ kind: "batch" });
  });

  test("lanes.list counts by state, and says since when the oldest waits", async () => {
    const lanes = await turnq.lanes.list();
    const [one] = await listed({ lane: "holds", state: "waiting", batch: "open" });
    expect(lanes.find(({ lane }) => lane === "holds")).toEqual({
      lane: "holds",
      states: { waiting: 2, running: 2, stopping: 0, delayed: 1, parked: 1, settled: 0 },
      oldestWaitingAt: one?.submittedAt,
    });
    expect(lanes.find(({ lane }) => lane === "does")).toMatchObject({ states: { settled: 3 } });
  });

  test("workers.list shows who works, two of one process too; who has closed is gone at once", async () => {
    const closing = other.worker({ agents: [does], concurrency: 7 });
    await closing.start();
    await expect.poll(async () => (await turnq.workers.list()).map(({ concurrency }) => concurrency)).toEqual([2, 7]);
    expect((await turnq.workers.list())[0]).toMatchObject({ agents: ["does", "holds"], lanes: ["does", "holds"] });
    await closing.close();
    expect((await turnq.workers.list()).map(({ concurrency }) => concurrency)).toEqual([2]);
  });

  test("batches.list has the newest first, with their counts", async () => {
    const batches = await turnq.batches.list({ limit: 3 });
    expect(batches.map(({ batch }) => batch)).toEqual(["many", "open", "ended"]);
    expect(batches.at(-1)).toMatchObject({ turns: 3, outcomes: { ok: 2, failed: 1 }, scored: 2, passed: 1 });
    expect(await turnq.batches.list({ limit: 1 })).toHaveLength(1);
  });
});

describe("Batch.retry and Batch.cancel, with no worker on the lane", () => {
  test.each<[string, RetryWhich | undefined, string[]]>([
    ["what failed, unless said", undefined, ["fail"]],
    ["what missed", { missed: true }, ["miss"]],
    ["both", { missed: true, failed: true }, ["miss", "fail"]],
    ["nothing that was cancelled when none was", { cancelled: true }, []],
  ])("retry takes %s, once however often it is called; cancel ends them", async (name, which, expected) => {
    const batch = `retry/${name.replaceAll(/\W/g, "-")}`;
    const lane = batch;
    const worker = other.worker({ agents: [does], lanes: [lane] });
    await worker.start();
    await turnq.submitMany(
      ITEMS.map((item) => ({ ...item, lane })),
      { batch, agents: ["does"] },
    );
    await settle(batch);
    await worker.close();
    const handle = turnq.batch(batch);
    expect(await handle.retry(which)).toBe(expected.length);
    expect(await handle.retry(which)).toBe(0);
    const open = (await listed({ batch })).filter(({ state }) => state !== "settled");
    expect(open.map(({ sample, generation }) => [sample, generation])).toEqual(expected.map((sample) => [sample, 2]));
    const n = expected.length;
    expect(await cancelBatch(batch)).toEqual({ turns: 3, settled: n, requested: 0, already: 3 - n });
    expect(await samples({ batch, outcome: "cancelled" })).toEqual(expected);
    expect(await handle.retry({ cancelled: true })).toBe(n);
    await cancelBatch(batch);
  });

  test("a batch that is not there", async () => {
    await expect(turnq.batch("nothing").progress()).rejects.toMatchObject({ code: "not_found" });
    await expect(cancelBatch("nothing")).rejects.toMatchObject({ code: "not_found" });
    expect(await turnq.batch("nothing").retry()).toBe(0);
  });
});
