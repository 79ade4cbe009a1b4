import { expect, test } from "vitest";
import { RateLimit } from "../../../src/simulator/rate-limit.ts";

test("a bucket of one second's worth, refilled as time goes on", () => {
  const limit = new RateLimit(2, 0);
  expect([limit.take(0), limit.take(0)]).toEqual([0, 0]);
  expect(limit.take(0)).toBe(500);
  expect(limit.take(250)).toBe(250);
  expect(limit.take(500)).toBe(0);
  expect(limit.take(500)).toBe(500);
  expect([limit.take(100_000), limit.take(100_000)]).toEqual([0, 0]);
  expect(limit.take(100_000)).toBe(500);
});
