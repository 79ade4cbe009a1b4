import { Redis } from "ioredis";
import { expect, test } from "vitest";
import { laneUpkeep } from "../../../src/ledger/upkeep.ts";
import { commandOf } from "../../../src/ledger/scripts.ts";
import { laneTag, settledChannel } from "../../../src/ledger/keys.ts";
import { closing, settlement, TestLane, testEvents, testRecord, unrun } from "../../lane.ts";
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
  await lane.bookLate("t1", 1, undefined, {
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
  const third = { ...more("3"), priority: 1, delayMs: 60_000, expiresInMs: 1000 };
  await lane.submit({ id: "t3", ...third }, { id: "t4", ...more("4"), priority: 1 });
  await lane.submit({ id: "t5", expiresInMs: 60_000, priority: 1 });
  await lane.run("t5");
  await lane.ledger.cancel(unrun(await lane.ledger.facts("t5")));
  await lane.ledger.notePhase("t5", 1, "stopping");
  await lane.ledger.cancel(unrun(await lane.ledger.facts("t3")));
  await lane.ledger.expired(1);
  await upkeepOf(lane);
}

async function upkeepOf(lane: TestLane): Promise<void> {
  const upkeep = laneUpkeep(lane.redis, lane.name);
  await upkeep.claim("w1", 1000);
  const { faults } = await upkeep.scan("", 100, true);
  await upkeep.mend([...faults, { kind: "session", subject: "t4" }, { kind: "expiry", subject: "t4" }]);
  await upkeep.mend([
    { kind: "lease", subject: "t4#1" },
    { kind: "index:running", subject: "t4" },
  ]);
  await lane.redis.hdel(lane.bull("t4"), "name");
  const clear: (...args: string[]) => Promise<unknown> = Reflect.get(lane.redis, commandOf("clear"));
  await clear.call(lane.redis, laneTag(lane.name), "t4", "t4");
  await lane.submit({ id: "t6", session: "z", batch: { id: "c", sample: "1", epoch: 1 } });
  await lane.settled("t6");
  const { turns, settledBy } = await upkeep.aged("", Date.now() + 1000, 1, 100);
  expect(turns.map(({ turn }) => turn)).toEqual(["t6"]);
  await upkeep.retire(["t1", "t6"], settledBy, Date.now() + 1000);
  await upkeep.audit("", 10, 0);
  await upkeep.recount("b", [{ field: "passed", found: "", due: "0" }]);
  await upkeep.takeOut("b", ["t1"]);
  await upkeep.dropBatch("c", Date.now() + 1000);
  await upkeep.note("n", 1, { scanPlace: "" });
  await upkeep.giveUp("w1");
}
