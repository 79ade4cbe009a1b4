import { spawn, type ChildProcess } from "node:child_process";
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { constants } from "node:os";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { markText } from "../../../src/process/mark.ts";
import { openProcesses } from "../../../src/process/processes.ts";
import { workerId, workerLiveness } from "../../../src/process/worker-id.ts";
import { alive, isAlive, until } from "./machine.ts";

const WORKER = fileURLToPath(new URL("../../fixtures/process/worker.mjs", import.meta.url));

interface Told {
  readonly worker: string;
  readonly pid: number;
  readonly supervisor: number;
}

let store: string;
const started: ChildProcess[] = [];

beforeEach(() => {
  store = `test-${randomUUID()}`;
});

afterEach(async () => {
  for (const child of started.splice(0)) child.kill("SIGKILL");
  await until("nothing of the store is alive", () => alive({ store }).length === 0);
});

/** A set of signals that /proc/PID/status shows, as bits. */
function signals(pid: number, field: string): bigint {
  const hex = new RegExp(`^${field}:\\s*([0-9a-f]+)$`, "m").exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  return BigInt(`0x${hex ?? "0"}`);
}

function handles(pid: number, number: number): boolean {
  return (signals(pid, "SigCgt") & (1n << BigInt(number - 1))) !== 0n;
}

function pending(pid: number): boolean {
  return signals(pid, "ShdPnd") !== 0n;
}

async function startWorker(mode: string, dueMs?: number): Promise<{ child: ChildProcess; told: Told }> {
  const args = [WORKER, store, mode, ...(dueMs === undefined ? [] : [String(dueMs)])];
  const child = spawn(process.execPath, args, { detached: true, stdio: ["ignore", "pipe", "inherit"] });
  started.push(child);
  let text = "";
  child.stdout?.on("data", (chunk: Buffer) => (text += chunk.toString()));
  await until("the worker is up", () => text.includes("\n"));
  return { child, told: JSON.parse(text) as Told };
}

describe("the supervisor", () => {
  it("kill -9 of the worker and its whole group leaves nothing alive, escaped grandchildren included", async () => {
    const { child, told } = await startWorker("wait");
    await until("the program, its grandchild and the unwatched one", () => alive({ store }).length === 3);
    expect(workerLiveness(told.worker)).toBe("alive");
    process.kill(-(child.pid ?? 0), "SIGKILL");
    await until("all of it is dead", () => alive({ store }).length === 0);
    await until("the supervisor has ended", () => !isAlive(told.supervisor));
    expect(workerLiveness(told.worker)).toBe("dead");
  });

  it("keeps the deadline when the worker's loop is blocked", async () => {
    const { told, child } = await startWorker("block", 1500);
    await until("the program and its grandchild are dead", () => alive({ store, turn: "t/1" }).length === 0);
    await until("the program has ended", () => !isAlive(told.pid));
    expect(alive({ store, turn: "t/2" })).toHaveLength(1);
    expect(isAlive(child.pid ?? 0)).toBe(true);
  });

  it("ignores the signals that end a worker", async () => {
    const { told } = await startWorker("wait");
    const { SIGINT, SIGTERM, SIGHUP } = constants.signals;
    const all = [SIGINT, SIGTERM, SIGHUP];
    await until("its handlers", () => all.every((number) => handles(told.supervisor, number)));
    for (const number of all) process.kill(told.supervisor, number);
    await until("the signals were delivered", () => !pending(told.supervisor));
    expect(isAlive(told.supervisor)).toBe(true);
  });

  it("is started again when it dies, and knows all that it is to watch", async () => {
    let restarts = 0;
    const worker = workerId();
    const processes = openProcesses({ store, worker, env: process.env, onSupervisorRestart: () => (restarts += 1) });
    try {
      const program = processes.spawn({
        command: [process.execPath, "-e", "setInterval(() => {}, 1000)"],
        cwd: "/",
        env: processes.allowedEnv(),
        mark: markText({ store, lane: "l", turn: "t", attempt: 1, worker }),
        stdin: "ignore",
        deadlineAt: Date.now() + 4000,
      });
      for (const stream of [program.stdout, program.stderr]) stream.resume();
      const first = processes.supervisorPid ?? 0;
      process.kill(first, "SIGKILL");
      await until(
        "another supervisor",
        () => processes.supervisorPid !== undefined && processes.supervisorPid !== first,
      );
      expect(restarts).toBe(1);
      // Nobody but the supervisor ends it.
      expect(await program.ended).toMatchObject({ signal: "SIGKILL" });
    } finally {
      await processes.close();
    }
  });
});
