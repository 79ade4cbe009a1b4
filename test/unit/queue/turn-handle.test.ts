import { EventEmitter } from "node:events";
import type { Redis } from "ioredis";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { TurnResult } from "../../../src/domain/turn-result.ts";
import type { LaneLedger, TurnRow } from "../../../src/ledger/ledger.ts";
import { SettledWatch } from "../../../src/queue/settled-watch.ts";
import { TurnHandle } from "../../../src/queue/turn-handle.ts";
import { SILENT } from "../../../src/telemetry/log.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** A turn whose rows are read one after the other; the last one stays. `onRow` is called while a row is on its way. */
function turnOf(rows: readonly Partial<TurnRow>[], onRow: (redis: EventEmitter) => void = () => undefined) {
  const redis = Object.assign(new EventEmitter(), {
    options: {},
    subscribe: () => Promise.resolve(1),
    disconnect: () => undefined,
  });
  const left = [...rows];
  const ledger = {
    lane: "a",
    row: async () => {
      const row = left.length > 1 ? left.shift() : left[0];
      onRow(redis);
      return row;
    },
    result: async (turn: string, generation: number) =>
      generation <= 2 ? ({ turn, generation } as TurnResult) : undefined,
  };
  const watch = new SettledWatch(() => redis as unknown as Redis, SILENT);
  return { turn: new TurnHandle(ledger as unknown as LaneLedger, watch, "t1", false), watch };
}

test("a turn that settles while its row is read is not waited for: no timer is needed", async () => {
  const { turn } = turnOf(
    [
      { state: "running", generation: 1 },
      { state: "settled", generation: 1 },
    ],
    (redis) => redis.emit("message", "channel", "t1"),
  );
  expect(await turn.result()).toMatchObject({ generation: 1 });
  expect(vi.getTimerCount()).toBe(0);
});

test("an earlier generation's Result stays readable while the next one runs", async () => {
  const { turn } = turnOf([{ state: "running", generation: 2 }]);
  expect(await turn.result({ generation: 1 })).toMatchObject({ generation: 1 });
  await expect(turn.result({ generation: 2, waitMs: 0 })).rejects.toMatchObject({ code: "wait_timeout" });
  await expect(turn.result({ generation: 3 })).rejects.toMatchObject({ code: "not_found", where: "turn t1" });
  expect(vi.getTimerCount()).toBe(0);
});
