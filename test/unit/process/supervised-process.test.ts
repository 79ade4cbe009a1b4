import type { ChildProcess } from "node:child_process";
import { EventEmitter } from "node:events";
import { Socket } from "node:net";
import { describe, expect, it } from "vitest";
import { SupervisedProcess, type ProcessOwner } from "../../../src/process/supervised-process.ts";

class FakeChild extends EventEmitter {
  readonly pid: number | undefined = 999_999_999;
  readonly connected = false;
  readonly stdin = null;
  readonly stdout = new Socket();
  readonly stderr = new Socket();

  constructor(pid?: number) {
    super();
    if (pid !== undefined) this.pid = pid;
  }
}

function supervise(child: FakeChild): { process: SupervisedProcess; calls: string[]; seen: { text: string } } {
  const calls: string[] = [];
  const owner: ProcessOwner = {
    program: "p",
    mark: "m",
    spared: () => [],
    sweep: (marks) => {
      calls.push(`sweep ${marks.join(" ")}`);
      return Promise.resolve();
    },
    watch: ({ mark }) => {
      calls.push(`watch ${mark}`);
      return () => void calls.push(`lift ${mark}`);
    },
    ended: () => void calls.push("ended"),
  };
  const process = new SupervisedProcess(child as unknown as ChildProcess, owner);
  const seen = { text: "" };
  process.stdout.on("data", (chunk: Buffer) => (seen.text += chunk.toString()));
  process.stderr.resume();
  return { process, calls, seen };
}

describe("the end of a supervised process", () => {
  it("C14: is told after its last output was read, not at its exit", async () => {
    const child = new FakeChild();
    const { process, calls, seen } = supervise(child);
    child.emit("exit", 0, null);
    setTimeout(() => {
      child.stdout.push("last line");
      child.stdout.push(null);
      child.stderr.push(null);
    }, 60);
    expect(await process.ended).toEqual({ code: 0, signal: null, heardOut: true });
    expect(seen.text).toBe("last line");
    expect(calls).toEqual(["sweep m", "ended"]);
    expect(child.stdout.destroyed).toBe(true);
  });

  it("does not wait for a pipe that somebody holds open in silence", async () => {
    const child = new FakeChild();
    const { process } = supervise(child);
    child.emit("exit", null, "SIGTERM");
    expect(await process.ended).toEqual({ code: null, signal: "SIGTERM", heardOut: false });
    expect(child.stdout.destroyed).toBe(true);
  });

  it("sweeps the marks of the turns that were going on inside it too", async () => {
    const child = new FakeChild();
    const { process, calls } = supervise(child);
    await process.watchTurn({ mark: "t1" }).done();
    process.watchTurn({ mark: "t2" });
    child.emit("exit", 0, null);
    await process.ended;
    expect(calls).toEqual(["watch t1", "sweep t1", "lift t1", "watch t2", "sweep m t2", "ended"]);
  });
});
