import { expect, test } from "vitest";
import { SILENT, type Log } from "../../../src/telemetry/log.ts";
import { LOOK_EVERY_MS, lagLook } from "../../../src/queue/loop-lag.ts";

const HOUR_MS = 3_600_000;

function scene() {
  const said: unknown[] = [];
  let [wall, steady, jumps] = [1_700_000_000_000, 5000, 0];
  const note = ({ code }: { readonly code?: unknown }): void => void said.push(code);
  const log = { ...SILENT, warn: note, error: note } as Log;
  const clock = { now: () => wall, monotonicMs: () => steady, setTimer: () => () => undefined };
  const look = lagLook(log, { clock, onJump: () => (jumps += 1) });
  /** So much goes by until the next look, of which the machine's time shows so much more or less. */
  const after = (passedMs: number, jumpMs = 0): void => {
    steady += passedMs;
    wall += passedMs + jumpMs;
    look();
  };
  return { said, after, jumps: () => jumps };
}

test.each([
  ["a machine that slept", HOUR_MS],
  ["a clock that was put back", -HOUR_MS],
])("%s is told of once, and leases are asked for at once", (_, jumpMs) => {
  const { said, after, jumps } = scene();
  after(LOOK_EVERY_MS);
  after(LOOK_EVERY_MS, jumpMs);
  after(LOOK_EVERY_MS);
  after(LOOK_EVERY_MS);
  expect(said).toEqual(["clock_jumped"]);
  expect(jumps()).toBe(1);
});

test("a clock that is moved little by little, as NTP does it, is no jump; D20: a loop that stood still is no jump either, and is told of", () => {
  const { said, after, jumps } = scene();
  for (let look = 0; look < 20; look += 1) after(LOOK_EVERY_MS, 100);
  after(10_000);
  expect(said).toEqual(["worker_blocked"]);
  expect(jumps()).toBe(0);
});
