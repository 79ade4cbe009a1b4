import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import type { Cell } from "../../../src/domain/turn-request.ts";
import { LaneSet } from "../../../src/queue/lane-set.ts";
import { LOOKED_AT, otherTurns, type OtherTurns } from "../../../src/queue/other-turns.ts";
import { SILENT } from "../../../src/telemetry/log.ts";
import { TestLane } from "../../lane.ts";
import { throwAwayRedis, type ThrowAwayRedis } from "../../redis.ts";

let server: ThrowAwayRedis;
let lane: TestLane;
let lanes: LaneSet;
beforeAll(async () => {
  server = await throwAwayRedis({ appendfsync: "no" });
});
afterAll(async () => {
  await server.stop();
});
beforeEach(async () => {
  lane = await TestLane.open(server.url);
  lanes = new LaneSet(lane.redis, SILENT);
});
afterEach(async () => {
  await lanes.close();
  await lane.close();
});

const cell = (id: string, sample: string | number): { id: string; batch: Cell } => ({
  id: `${id}:${sample}:a:1`,
  batch: { id, sample: String(sample), epoch: 1 },
});
const others = (batch = "own"): Promise<OtherTurns> =>
  otherTurns(lanes, batch, { lanes: [lane.name, lane.name], agents: new Set(["a"]) });

describe("U05: what a worker of a batch would run beside it", () => {
  test("U05: what waits, is delayed or parked, of a batch or of none; not its own, nor what runs, nor that of other agents", async () => {
    await lane.submit(
      { ...cell("own", 1), agent: "a" },
      { ...cell("x", 1), agent: "a" },
      { ...cell("x", 2), agent: "a", delayMs: 3_600_000 },
      { id: "head", agent: "a", session: "s" },
      { id: "behind", agent: "a", session: "s" },
      { ...cell("y", 1), agent: "a" },
      { ...cell("y", 2), agent: "other" },
      { id: "runs", agent: "a" },
    );
    await lane.run("runs");
    expect(await others()).toEqual({
      turns: 5,
      batches: new Map([
        ["x", 2],
        ["y", 1],
      ]),
      noBatch: 2,
      named: ["head", "behind"],
      unnamed: 0,
      exact: true,
    });
    expect((await others("x")).batches).toEqual(
      new Map([
        ["own", 1],
        ["y", 1],
      ]),
    );
  });

  test("U05: a turn that a dead worker had is taken over, so it counts", async () => {
    await lane.submit({ ...cell("x", 1), agent: "a" }, { ...cell("own", 1), agent: "a" });
    for (const id of ["x", "own"]) await lane.run(`${id}:1:a:1`);
    expect((await others()).turns).toBe(0);
    for (const id of ["x", "own"]) await lane.redis.zadd(lane.key("leases"), "XX", 1, `${id}:1:a:1#1`);
    expect(await others()).toMatchObject({ turns: 1, batches: new Map([["x", 1]]) });
  });

  test("U05: where very many wait it is told by the batches' counts, without a look at each turn, and says so", async () => {
    const many = Array.from({ length: LOOKED_AT + 50 }, (_, n) => ({ ...cell("many", n), agent: "a" }));
    await lane.submit({ ...cell("few", 1), agent: "a" }, { ...cell("own", 1), agent: "a" });
    for (let at = 0; at < many.length; at += 100) await lane.submit(...many.slice(at, at + 100));
    await lane.submit({ id: "loose", agent: "a" });
    const rows = vi.spyOn(lanes.get(lane.name).ledger, "rows");
    expect(await others()).toEqual({
      turns: many.length + 2,
      batches: new Map([
        ["many", many.length],
        ["few", 1],
      ]),
      noBatch: 1,
      named: ["loose"],
      unnamed: 0,
      exact: false,
    });
    expect(rows.mock.calls.flatMap(([turns]) => turns).length).toBeLessThan(LOOKED_AT / 2);
    // Its own turns alone, however many, are nobody else's.
    expect(await others("many")).toMatchObject({ turns: 3, exact: false, noBatch: 1 });
  });
});
