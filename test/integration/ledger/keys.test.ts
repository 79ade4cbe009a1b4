import { Redis } from "ioredis";
import { expect, test } from "vitest";
import { laneTag, settledChannel } from "../../../src/ledger/keys.ts";
import { closing, settlement, TestLane, testEvents, testRecord } from "../../lane.ts";
import { throwAwayRedis } from "../../redis.ts";

/** Commands whose first argument is no key. */
const KEYLESS = new Set(["time"]);

test("A13: every key that any script touches carries the lane's hash tag", async () => {
  const server = await throwAwayRedis({ appendfsync: "no" });
  const lane = await TestLane.open(server.url);
  const watcher = new Redis(server.url);
  try {
    const monitor = await watcher.monitor();
    const touched: string[][] = [];
    let end = (): void => {};
    const ended = new Promise<void>((resolve) => (end = resolve));
    monitor.on("monitor", (_at: string, args: string[], source: string) => {
      if (source === "lua") touched.push(args);
      if (args[0]?.toLowerCase() === "echo") end();
    });
    await everything(lane);
    await lane.redis.echo("end");
    await ended;
    monitor.disconnect();

    const commands = touched.filter(([name = ""]) => !KEYLESS.has(name.toLowerCase()));
    expect(commands.length).toBeGreaterThan(100);
    expect(new Set(commands.map(([name = ""]) => name.toLowerCase()))).toContain("publish");
    const tag = laneTag(lane.name);
    expect(settledChannel(lane.name).startsWith(tag)).toBe(true);
    expect(commands.filter(([, key]) => key === undefined || !key.startsWith(tag))).toEqual([]);
    const stored = await lane.redis.keys("*");
    expect(stored.filter((key) => !key.startsWith(tag))).toEqual([]);
  } finally {
    watcher.disconnect();
    await lane.close();
    await server.stop();
  }
});

/** Calls every script, on its longer paths. */
async function everything(lane: TestLane): Promise<void> {
  const more = (sample: string) => ({
    session: "s/1:x",
    batch: { id: "b", sample, epoch: 1 },
    expect: [{ type: "equals", value: "x" } as const],
  });
  await lane.submit({ id: "t1", ...more("1") }, { id: "t2", ...more("2") });
  const first = await lane.run("t1");
  await lane.ledger.renew([
    { turn: "t1", attempt: 1 },
    { turn: "t2", attempt: 1 },
  ]);
  await lane.ledger.append("t1", 1, testEvents("t1", 1, 0, { type: "text_delta", text: "x" }));
  await lane.begin("t2");
  await lane.endLease("t1", 1);
  await lane.begin("t1", "w2");
  await lane.ledger.close(closing(first.facts, testRecord(first, { status: "lost" }), { spends: "crash" }), {
    state: "delayed",
    afterMs: 1,
  });
  await lane.ledger.bookLate("t1", 1, undefined, {
    inputTokens: 1,
    costUsd: 1,
    modelCalls: 0,
    toolCalls: 0,
    known: "reported",
  });
  const second = await lane.run("t1");
  await lane.ledger.settle(settlement(second.facts, testRecord(second)));
  await lane.redis.hset(lane.bull("t1"), "told", "1");
  await lane.begin("t1");
  await lane.settled("t2");
  await lane.openGeneration("t2", 1, "n");
  await lane.ledger.wake(["s/1:x"]);
}
