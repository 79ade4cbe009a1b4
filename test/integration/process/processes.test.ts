import { randomUUID } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { markText } from "../../../src/process/mark.ts";
import { ProcessFailure } from "../../../src/process/process-failure.ts";
import { openProcesses, type SpawnOptions } from "../../../src/process/processes.ts";
import type { SupervisedProcess } from "../../../src/process/supervised-process.ts";
import { sweepDeadWorkers } from "../../../src/process/sweep.ts";
import { workerId } from "../../../src/process/worker-id.ts";
import { alive, isAlive, until } from "./machine.ts";

const HANG = "setInterval(() => {}, 1000);";
const ESCAPE = `
  const { spawn } = require("node:child_process");
  const child = spawn(process.execPath, ["-e", ${JSON.stringify(HANG)}], { detached: true, stdio: ["ignore", "inherit", "inherit"] });
  child.unref();
  console.log(child.pid);
`;

let folder: string;
let store: string;
let processes: ReturnType<typeof openProcesses>;
const worker = workerId();

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "turnq-processes-"));
  store = `test-${randomUUID()}`;
  processes = openProcesses({ store, worker, env: { ...process.env, A_SECRET: "hidden", B_NAMED: "shown" } });
});

afterEach(async () => {
  await processes.close();
  rmSync(folder, { recursive: true });
  const left = alive({ store });
  if (left.length > 0) throw new Error(`processes were left: ${left.join(", ")}`);
});

function mark(turn = "t1", attempt = 1): string {
  return markText({ store, lane: "lane", turn, attempt, worker });
}

function node(code: string, more: Partial<SpawnOptions> = {}): SupervisedProcess {
  return processes.spawn({
    command: [process.execPath, "-e", code],
    cwd: folder,
    env: processes.allowedEnv(["B_NAMED"]),
    mark: mark(),
    stdin: "ignore",
    ...more,
  });
}

function textOf(process: SupervisedProcess): { text: string } {
  const seen = { text: "" };
  process.stderr.resume();
  process.stdout.on("data", (chunk: Buffer) => (seen.text += chunk.toString()));
  return seen;
}

describe("a supervised program", () => {
  it("gets the allowed variables and the mark, and none of the worker's secrets", async () => {
    const program = node("console.log(JSON.stringify(process.env))");
    const seen = textOf(program);
    expect(await program.ended).toMatchObject({ code: 0, signal: null });
    const env = JSON.parse(seen.text) as Record<string, string>;
    expect(env).toMatchObject({ TURNQ_TURN: mark(), B_NAMED: "shown", PATH: process.env.PATH });
    expect(env.A_SECRET).toBeUndefined();
  });

  it("C18: a bash whose stdin is a pipe is no remote login: it does not run what the user's own shells run", async () => {
    const home = mkdtempSync(join(folder, "home-"));
    writeFileSync(join(home, ".bashrc"), "echo from the .bashrc");
    const env = { ...processes.allowedEnv(), HOME: home };
    const program = node("", { command: ["bash", "-c", "cat; echo done"], env, stdin: "pipe" });
    program.write("asked\n");
    program.endInput();
    const seen = textOf(program);
    expect(await program.ended).toMatchObject({ code: 0 });
    expect(seen.text).toBe("asked\ndone\n");
  });

  it("C14: loses no line of 5 MB that were written just before the exit", async () => {
    for (let round = 0; round < 10; round += 1) {
      const program = node(`
        const fs = require("node:fs");
        const all = Buffer.from("x".repeat(99) + "\\n").toString().repeat(50000) + "last\\n";
        let at = 0;
        const bytes = Buffer.from(all);
        while (at < bytes.length) { try { at += fs.writeSync(1, bytes, at); } catch (e) { if (e.code !== "EAGAIN") throw e; } }
        process.exit(0);
      `);
      let bytes = 0;
      let tail = "";
      program.stdout.on("data", (chunk: Buffer) => {
        bytes += chunk.length;
        tail = (tail + chunk.toString("latin1")).slice(-10);
      });
      program.stderr.resume();
      await program.ended;
      expect(bytes).toBe(5_000_005);
      expect(tail.endsWith("last\n")).toBe(true);
    }
  });

  it("C14: loses nothing either when the worker's loop is blocked past every bound as the program exits", async () => {
    const program = node(
      `require("node:fs").writeSync(1, "x".repeat(60000)); require("node:fs").writeFileSync("done", "")`,
    );
    const seen = textOf(program);
    const cell = new Int32Array(new SharedArrayBuffer(4));
    const end = performance.now() + 10_000;
    while (performance.now() < end && !isGone(program)) Atomics.wait(cell, 0, 0, 20);
    Atomics.wait(cell, 0, 0, 600);
    await program.ended;
    expect(seen.text.length).toBe(60_000);
  });

  it("C05: a grandchild in a session of its own that holds stdout open is dead when the program has ended", async () => {
    const program = node(ESCAPE);
    const seen = textOf(program);
    expect(await program.ended).toMatchObject({ code: 0 });
    const pid = Number(seen.text);
    expect(pid).toBeGreaterThan(1);
    expect(isAlive(pid)).toBe(false);
    expect(alive({ store })).toEqual([]);
  });

  it("kills a child without any environment as long as its parent lives, also in another session", async () => {
    const program = node(`
      const { spawn } = require("node:child_process");
      const child = spawn(process.execPath, ["-e", ${JSON.stringify(HANG)}], { detached: true, stdio: "ignore", env: {} });
      console.log(child.pid);
      ${HANG}
    `);
    const seen = textOf(program);
    await until("the child's pid", () => seen.text.endsWith("\n"));
    const pid = Number(seen.text);
    expect(isAlive(pid)).toBe(true);
    program.killSync();
    expect(isAlive(pid)).toBe(false);
    expect(isAlive(program.pid ?? 0)).toBe(false);
    expect(await program.ended).toMatchObject({ code: null, signal: "SIGKILL" });
  });

  it("C02: killed, it writes nothing any more: whoever was to write is dead when killSync returns", async () => {
    const file = join(folder, "lock");
    const program = node(`
      const { spawn } = require("node:child_process");
      const code = "setInterval(() => require('node:fs').appendFileSync(process.argv[1], 'x'), 1)";
      spawn(process.execPath, ["-e", code, ${JSON.stringify(file)}], { detached: true, stdio: "ignore" });
      process.on("SIGTERM", () => {});
      ${HANG}
    `);
    program.stdout.resume();
    program.stderr.resume();
    await until("the first write", () => sizeOf(file) > 0);
    program.killSync();
    const size = sizeOf(file);
    await program.ended;
    expect(sizeOf(file)).toBe(size);
    expect(alive({ store })).toEqual([]);
  });

  it("C09: a program that exits without reading 5 MB of input ends as itself", async () => {
    const program = node("process.exit(3)", { stdin: "pipe" });
    textOf(program);
    program.write("x".repeat(5_000_000));
    program.endInput();
    expect(await program.ended).toMatchObject({ code: 3 });
  });

  it("C11: names what is missing, the program or the folder", () => {
    const failureOf = (command: string, cwd: string): unknown => {
      try {
        processes.spawn({ command: [command], cwd, env: processes.allowedEnv(), mark: mark(), stdin: "ignore" });
        return undefined;
      } catch (error) {
        return error;
      }
    };
    expect(failureOf("no-such-program", folder)).toMatchObject({
      failure: { code: "config", retryable: false, message: expect.stringContaining("no-such-program") as string },
    });
    const gone = join(folder, "gone");
    expect(failureOf(process.execPath, gone)).toMatchObject({
      failure: { code: "config", message: expect.stringContaining(gone) as string },
    });
    expect(failureOf("./processes.test.ts", folder)).toBeInstanceOf(ProcessFailure);
  });

  it("close kills what runs and ends the supervisor; nothing is started after it", async () => {
    const program = node(HANG);
    textOf(program);
    const supervisor = processes.supervisorPid ?? 0;
    await until("the supervisor", () => isAlive(supervisor));
    await processes.close();
    expect(await program.ended).toMatchObject({ signal: "SIGKILL" });
    expect(isAlive(supervisor)).toBe(false);
    expect(() => node("")).toThrow(/closing/);
  });
});

describe("a turn inside a process that outlives it", () => {
  it("is swept at its end, and the process lives on", async () => {
    const program = node(`
      const { spawn } = require("node:child_process");
      process.env.TURNQ_TURN = ${JSON.stringify(mark("inner", 7))};
      const child = spawn(process.execPath, ["-e", ${JSON.stringify(HANG)}], { detached: true, stdio: "ignore" });
      console.log(child.pid);
      ${HANG}
    `);
    const seen = textOf(program);
    const watch = program.watchTurn({ mark: mark("inner", 7) });
    await until("the child", () => seen.text.endsWith("\n"));
    await watch.done();
    expect(isAlive(Number(seen.text))).toBe(false);
    expect(program.exited).toBe(false);
  });
});

describe("sweeps", () => {
  it("sweepMark kills the attempts of one turn and nothing else", async () => {
    const [one, two, other] = [node(HANG), node(HANG, { mark: mark("t1", 2) }), node(HANG, { mark: mark("t2") })];
    for (const program of [one, two, other]) textOf(program);
    expect(await processes.sweepMark({ store, lane: "lane", turn: "t1" })).toBe(2);
    await Promise.all([one.ended, two.ended]);
    expect(alive({ store })).toEqual([other.pid]);
  });

  it("sweepDeadWorkers takes what a dead worker left and never touches another store or a living worker", async () => {
    const dead = worker.replace(/\.[^.]+\.[^.]+$/, ".zzz.00000000");
    const elsewhere = `other${dead}`;
    const of = (part: { store?: string; worker: string }): SupervisedProcess => {
      const program = node(HANG, { mark: markText({ store, lane: "l", turn: "t", attempt: 1, ...part }) });
      textOf(program);
      return program;
    };
    const left = of({ worker: dead });
    const kept = [of({ store: `${store}-2`, worker: dead }), of({ worker }), of({ worker: elsewhere })];
    expect(await sweepDeadWorkers(store)).toBe(1);
    expect(await left.ended).toMatchObject({ signal: "SIGKILL" });
    expect(kept.map((program) => isAlive(program.pid ?? 0))).toEqual([true, true, true]);
  });
});

function sizeOf(file: string): number {
  try {
    return readFileSync(file).length;
  } catch {
    return 0;
  }
}

function isGone(program: SupervisedProcess): boolean {
  return !isAlive(program.pid ?? 0);
}
