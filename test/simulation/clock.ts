import type { Redis } from "ioredis";
import { vi } from "vitest";
import { laneTag } from "../../src/ledger/keys.ts";
import { commandOf, loadScripts } from "../../src/ledger/scripts.ts";

/** The one place where scripts look at the clock, in includes/turns.lua. */
const REAL = `  local time = rcall("TIME")
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)`;
const FAKE = `  return tonumber(rcall("GET", KEYS[1] .. "/clock"))`;

const START = 1_800_000_000_000;
const TIMERS = ["setTimeout", "clearTimeout", "setInterval", "clearInterval", "Date", "performance"] as const;

/** A clock that the scripts of one lane, this process and its timers share, and that moves when it is told. */
export class FakeClock {
  readonly #redis: Redis;
  readonly #key: string;
  readonly #real = { setTimeout: globalThis.setTimeout, setInterval: globalThis.setInterval };
  now = START;

  /** Takes over the connection's scripts, and the timers of this process until `end`. */
  constructor(redis: Redis, lane: string, bound: <T extends (...args: never[]) => unknown>(callback: T) => T) {
    this.#redis = redis;
    this.#key = `${laneTag(lane)}/clock`;
    for (const { name, lua, numberOfKeys } of loadScripts()) {
      const looks = lua.includes("now_ms()");
      if (looks && !lua.includes(REAL)) throw new Error(`the clock of the script ${name} is not where it was`);
      redis.defineCommand(commandOf(name), { lua: lua.replace(REAL, FAKE), numberOfKeys });
    }
    Reflect.set(redis, "time", () =>
      Promise.resolve([String(Math.floor(this.now / 1000)), String((this.now % 1000) * 1000)]),
    );
    vi.useFakeTimers({ toFake: [...TIMERS], now: START });
    for (const name of ["setTimeout", "setInterval"] as const) {
      const faked = globalThis[name] as (callback: () => void, ...rest: unknown[]) => unknown;
      Reflect.set(globalThis, name, (callback: () => void, ...rest: unknown[]) => faked(bound(callback), ...rest));
    }
  }

  async start(): Promise<void> {
    this.now = START;
    vi.clearAllTimers();
    vi.setSystemTime(START);
    await this.#redis.set(this.#key, START);
  }

  /** Moves on; timers that come due fire. */
  async move(ms: number): Promise<void> {
    this.now += ms;
    await this.#redis.set(this.#key, this.now);
    vi.advanceTimersByTime(ms);
  }

  end(): void {
    vi.useRealTimers();
    Object.assign(globalThis, this.#real);
  }
}
