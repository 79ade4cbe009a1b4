import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { finishAttempt, type Finished } from "../../../src/queue/finish-attempt.ts";
import { rebuildLost } from "../../../src/queue/lost-attempt.ts";
import { SILENT } from "../../../src/telemetry/log.ts";
import { storedRequest } from "../../agents.ts";
import { checkLane } from "../../check-lane.ts";
import { TestLane, testEvents, unrun } from "../../lane.ts";
import { throwAwayRedis, type ThrowAwayRedis } from "../../redis.ts";

let server: ThrowAwayRedis;
let lane: TestLane;
beforeAll(async () => {
  server = await throwAwayRedis({ appendfsync: "no" });
});
afterAll(async () => {
  await server.stop();
});
beforeEach(async () => {
  lane = await TestLane.open(server.url);
});
afterEach(async () => {
  expect(await checkLane(lane.redis, lane.name)).toEqual([]);
  await lane.close();
});

/** Rebuilds the open first attempt as a worker does that was told of its loss, and closes it; `meanwhile` is between. */
async function takeOver(turn: string, meanwhile: () => Promise<unknown>): Promise<Finished> {
  const { signal } = new AbortController();
  const rebuilt = await rebuildLost(lane.ledger, await lane.ledger.facts(turn), 1, false);
  await meanwhile();
  return finishAttempt({ ledger: lane.ledger, worker: { log: SILENT, givenUp: signal, score: () => null } }, rebuilt);
}

test.each([
  { close: "closed with a back-off", maxCrashes: 3, cancelled: false, ends: "later" },
  { close: "settled as its last", maxCrashes: 1, cancelled: false, ends: "settled" },
  { close: "settled as cancelled", maxCrashes: 3, cancelled: true, ends: "settled" },
])(
  "invariant 3: what a slow worker stores while its attempt is taken over is in the record: $close",
  async ({ maxCrashes, cancelled, ends }) => {
    const retry = { ...storedRequest().retry, maxCrashes };
    await lane.submit({ id: "t1", batch: { id: "b", sample: "1", epoch: 1 }, retry });
    const run = await lane.run("t1", "slow");
    const spent = (inputTokens: number) =>
      ({ type: "usage", usage: { inputTokens, modelCalls: 1, toolCalls: 0, known: "reported" } }) as const;
    const events = testEvents(
      "t1",
      1,
      0,
      { type: "agent_start", agent: run.facts.request.agent },
      spent(10),
      spent(250),
    );
    await lane.ledger.append("t1", 1, events.slice(0, 2));
    await lane.ledger.renew([]);
    if (cancelled) await lane.ledger.cancel(unrun(run.facts));
    await lane.endLease("t1", 1);
    expect(await lane.begin("t1", "other")).toMatchObject({ kind: "lost", attempt: 1 });

    expect(await takeOver("t1", () => lane.ledger.append("t1", 1, events))).toEqual({ kind: "stale" });
    expect(await lane.begin("t1", "other")).toMatchObject({ kind: "lost", attempt: 1 });
    expect(await takeOver("t1", () => lane.ledger.append("t1", 1, events))).toMatchObject({ kind: ends });
    const stored = await lane.ledger.attempt("t1", 1);
    expect(stored?.record.usage.inputTokens).toBe(250);
    expect(stored?.events.slice(0, 3)).toEqual(events);
    expect((await lane.ledger.batchCounts("b"))?.usage.inputTokens).toBe(250);
    // From the close on it is refused.
    expect(await lane.ledger.append("t1", 1, testEvents("t1", 1, 3, spent(900)))).toBe(false);
  },
);

test("D16: stored events that cannot be read, the last ones too, keep no attempt from being taken over, and no reader waiting", async () => {
  await lane.submit({ id: "t1", retry: { ...storedRequest().retry, maxCrashes: 1 } });
  const run = await lane.run("t1", "slow");
  const [start] = testEvents("t1", 1, 0, { type: "agent_start", agent: run.facts.request.agent });
  await lane.ledger.append("t1", 1, start === undefined ? [] : [start]);
  const stream = lane.key("events", "t1", 1);
  for (let seq = 2; seq <= 1500; seq++) await lane.redis.xadd(stream, `${seq}-0`, "e", "{");
  const [text] = testEvents("t1", 1, 1500, { type: "text_delta", text: "of a newer version" });
  await lane.redis.xadd(stream, "1501-0", "e", JSON.stringify({ ...text, type: "of a newer version" }));
  await lane.ledger.renew([]);
  await lane.endLease("t1", 1);
  expect(await takeOver("t1", () => Promise.resolve())).toMatchObject({ kind: "settled" });
  expect(await lane.ledger.events("t1", 1, 1)).toEqual({ events: [], to: 1001 });
  expect((await lane.ledger.attempt("t1", 1))?.record).toMatchObject({ status: "lost" });
  const last = await lane.ledger.events("t1", 1, 1001);
  expect(last?.events.map(({ type, seq }) => [type, seq])).toEqual([
    ["agent_end", 1502],
    ["rolled_back", 1503],
    ["turn_completed", 1504],
  ]);
  expect(last?.to).toBe(1504);
});
