import { describe, expect, it } from "vitest";
import { TIMER_MAX_MS } from "../../../src/domain/limits.ts";
import { TIME_OVER, afterMs, systemClock, within } from "../../../src/agent/deadline.ts";
import { FakeClock } from "../../agents.ts";

const DAY_MS = 24 * 60 * 60 * 1000;

describe("afterMs", () => {
  it("C48: a delay of 30 days acts after 30 days, and no timer is asked for more than a timer can do", async () => {
    const clock = new FakeClock();
    let acted = 0;
    afterMs(clock, 30 * DAY_MS, () => (acted += 1));
    await clock.advance(30 * DAY_MS - 1);
    expect(acted).toBe(0);
    await clock.advance(1);
    expect(acted).toBe(1);
    expect(Math.max(...clock.asked)).toBeLessThanOrEqual(TIMER_MAX_MS);
    await clock.advance(90 * DAY_MS);
    expect(acted).toBe(1);
  });

  it("C48: an endless delay never acts, and can be called off in a later part", async () => {
    const clock = new FakeClock();
    let acted = 0;
    const callOff = afterMs(clock, Infinity, () => (acted += 1));
    await clock.advance(100 * DAY_MS);
    expect(clock.pending).toBe(1);
    callOff();
    expect(clock.pending).toBe(0);
    expect(acted).toBe(0);
  });

  it("C48: on the machine's own clock a delay over 2^31 ms does not act at once", async () => {
    let acted = false;
    const callOff = afterMs(systemClock, 2 ** 31 + 5, () => (acted = true));
    await new Promise((resolve) => setTimeout(resolve, 20));
    callOff();
    expect(acted).toBe(false);
  });

  it("a delay below 0 acts at the next moment", async () => {
    const clock = new FakeClock();
    let acted = 0;
    afterMs(clock, -5, () => (acted += 1));
    await clock.advance(0);
    expect(acted).toBe(1);
  });
});

describe("within", () => {
  it("gives the value, passes a rejection on, and leaves no timer", async () => {
    const clock = new FakeClock();
    await expect(within(clock, 10, Promise.resolve(7))).resolves.toBe(7);
    await expect(within(clock, 10, Promise.reject(new Error("no")))).rejects.toThrow("no");
    expect(clock.pending).toBe(0);
  });

  it("answers that the time is over, and a late rejection is nobody's", async () => {
    const clock = new FakeClock();
    let fail: (error: Error) => void = () => undefined;
    const late = new Promise<number>((_resolve, reject) => (fail = reject));
    const answer = within(clock, 10, late);
    await clock.advance(10);
    await expect(answer).resolves.toBe(TIME_OVER);
    fail(new Error("late"));
    await clock.advance(1);
  });
});
