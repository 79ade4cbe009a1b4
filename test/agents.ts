import { existsSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { resolveLimits, resolveRetry, type LimitsInput, type RetryInput } from "../src/domain/limits.ts";
import type { StoredRequest } from "../src/domain/turn-request.ts";
import type { AttemptInit } from "../src/agent/agent-spec.ts";
import type { StartOptions } from "../src/agent/agent.ts";
import type { Clock } from "../src/agent/deadline.ts";

/** What an agent is made with in a test that is not about it. */
export function attemptInit(more: Partial<AttemptInit> = {}): AttemptInit {
  return {
    turn: "t1",
    attempt: 1,
    iteration: 1,
    limits: resolveLimits(),
    options: {},
    idempotencyKey: "t1~1",
    mark: "",
    ...more,
  };
}

/** A start in the folder for temporary files, with nothing but PATH in the environment. */
export function startOptions(more: Partial<StartOptions> = {}): StartOptions {
  return { workingDirectory: tmpdir(), env: { PATH: "/usr/bin:/bin" }, ...more };
}

/** What a test says of a request; limits and retry rules may be given in part. */
type RequestFacts = Omit<Partial<StoredRequest>, "limits" | "retry"> & {
  readonly limits?: LimitsInput | undefined;
  readonly retry?: RetryInput | undefined;
};

/** A request as it is stored. */
export function storedRequest(more: RequestFacts = {}): StoredRequest {
  return {
    v: 1,
    id: "t1",
    agent: "a",
    lane: "a",
    input: "hello",
    ...more,
    limits: resolveLimits(more.limits),
    retry: resolveRetry(more.retry),
  };
}

/** True while a process runs; a zombie does not. */
export function isProcessAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch (thrown) {
    // without /proc the signal's answer is all there is
    return existsSync("/proc/self/stat")
      ? false
      : !(thrown instanceof Error && "code" in thrown && thrown.code === "ESRCH");
  }
}

/** A clock that stands still until it is moved. */
export class FakeClock implements Clock {
  #ms = 0;
  readonly #epochMs: number;
  #timers: { readonly dueMs: number; readonly act: () => void }[] = [];
  /** The delays that were asked of it, in ms. */
  readonly asked: number[] = [];

  constructor(epochMs = 1_700_000_000_000) {
    this.#epochMs = epochMs;
  }

  readonly now = (): number => this.#epochMs + this.#ms;
  readonly monotonicMs = (): number => this.#ms;

  readonly setTimer = (delayMs: number, act: () => void): (() => void) => {
    this.asked.push(delayMs);
    const timer = { dueMs: this.#ms + delayMs, act };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  };

  /** How many timers are set. */
  get pending(): number {
    return this.#timers.length;
  }

  /** Moves on, letting each timer act at its instant and the promises after it settle. */
  async advance(ms: number): Promise<void> {
    const untilMs = this.#ms + ms;
    await settlePromises();
    for (;;) {
      const next = this.#timers.toSorted((a, b) => a.dueMs - b.dueMs).find((timer) => timer.dueMs <= untilMs);
      if (next === undefined) break;
      this.#timers = this.#timers.filter((timer) => timer !== next);
      this.#ms = Math.max(this.#ms, next.dueMs);
      next.act();
      await settlePromises();
    }
    this.#ms = untilMs;
  }

  /** Moves on without letting any timer act, as a blocked event loop does. */
  block(ms: number): void {
    this.#ms += ms;
  }
}

async function settlePromises(): Promise<void> {
  for (let turns = 0; turns < 3; turns += 1) await new Promise((resolve) => setImmediate(resolve));
}
