import { EventEmitter } from "node:events";
import { PassThrough } from "node:stream";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { AgentTurn } from "../../../../src/agent/ongoing-turn.ts";
import { ProgramRun } from "../../../../src/agents/command/program-run.ts";
import type { ProcessEnd, SupervisedProcess } from "../../../../src/process/supervised-process.ts";
import type { StopReason } from "../../../../src/domain/stop-reason.ts";

/** A program that does nothing by itself and notes what is done to it. */
class FakeProcess extends EventEmitter {
  readonly stdout = new PassThrough();
  readonly stderr = new PassThrough();
  readonly done: string[] = [];
  exit: (end: ProcessEnd) => void = () => undefined;
  readonly ended = new Promise<ProcessEnd>((resolve) => {
    this.exit = resolve;
  });

  write(text: string): void {
    this.done.push(`write ${text.trim()}`);
  }

  endInput(): void {
    this.done.push("end of input");
  }

  terminate(): void {
    this.done.push("SIGTERM");
  }

  kill(): void {
    this.done.push("kill");
    this.exit({ code: null, signal: "SIGKILL", heardOut: true });
  }

  killSync(): void {
    this.kill();
  }

  say(line: object): void {
    this.stdout.emit("data", Buffer.from(`${JSON.stringify(line)}\n`));
  }
}

let fake: FakeProcess;
let told: StopReason | undefined;
const stopped: StopReason[] = [];

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval", "performance", "Date"] });
  fake = new FakeProcess();
  told = undefined;
  stopped.length = 0;
});

afterEach(() => {
  vi.useRealTimers();
});

function run(limits: { timeoutMs: number; graceMs: number }, keepInputOpen = false): ProgramRun {
  return new ProgramRun({
    processes: { spawn: () => fake as unknown as SupervisedProcess },
    command: ["p"],
    cwd: "/",
    env: {},
    mark: "m",
    output: "events",
    request: "{}",
    keepInputOpen,
    memoryMb: 1000,
    limits,
    turn: {
      emit: () => undefined,
      shouldStop: () => told,
      collector: { isEmpty: true, lastText: () => "" },
    } as unknown as AgentTurn,
    markStopped: (reason) => stopped.push(reason),
  });
}

describe("a run of a program", () => {
  it("C24: gives a program a second to exit after its result, then kills it", async () => {
    const answer = run({ timeoutMs: 60_000, graceMs: 5000 }).finish();
    fake.say({ type: "result", output: "x" });
    await vi.advanceTimersByTimeAsync(999);
    expect(fake.done).not.toContain("kill");
    await vi.advanceTimersByTimeAsync(1);
    expect(await answer).toEqual({ output: "x" });
  });

  it("C24: less near the deadline: a result in time is no timeout", async () => {
    const answer = run({ timeoutMs: 1000, graceMs: 5000 }).finish();
    await vi.advanceTimersByTimeAsync(500);
    fake.say({ type: "result", output: "x" });
    await vi.advanceTimersByTimeAsync(300);
    expect(fake.done).toContain("kill");
    expect(await answer).toEqual({ output: "x" });
  });

  it("C03: climbs from the line to the kill over the grace, and says the stop once", async () => {
    const answer = run({ timeoutMs: 60_000, graceMs: 4000 }, true).finish();
    await vi.advanceTimersByTimeAsync(100);
    expect(fake.done).toEqual(["write {}"]);
    told = "max_steps";
    await vi.advanceTimersByTimeAsync(50);
    expect(fake.done.slice(1)).toEqual(['write {"type":"stop","reason":"max_steps"}']);
    await vi.advanceTimersByTimeAsync(2000);
    expect(fake.done.at(-1)).toBe("end of input");
    await vi.advanceTimersByTimeAsync(1000);
    expect(fake.done.at(-1)).toBe("SIGTERM");
    await vi.advanceTimersByTimeAsync(1100);
    expect(fake.done.at(-1)).toBe("kill");
    expect(await answer).toEqual({});
    expect(stopped).toEqual(["max_steps"]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("is a timeout when it was killed past the deadline by somebody else", async () => {
    const answer = run({ timeoutMs: 1000, graceMs: 100 }).finish();
    await vi.advanceTimersByTimeAsync(1001);
    fake.kill();
    await expect(answer).rejects.toMatchObject({ code: "turn_timeout" });
  });
});
