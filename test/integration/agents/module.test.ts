import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { ModuleConfig } from "../../../src/agents/module/module-config.ts";
import { moduleAgent } from "../../../src/agents/module/module-agent.ts";
import { RunnerPool } from "../../../src/agents/module/runner-pool.ts";
import type { AgentSpec } from "../../../src/agent/agent-spec.ts";
import type { Json } from "../../../src/domain/json.ts";
import { sweepMarks } from "../../../src/process/sweep.ts";
import { alive, isAlive, until } from "../process/machine.ts";
import { Place, ended, type Ended } from "./attempt.ts";

const FIXTURES = fileURLToPath(new URL("../../fixtures/module", import.meta.url));

let place: Place;
const specs: AgentSpec[] = [];

beforeAll(() => {
  place = new Place();
});

afterEach(async () => {
  for (const spec of specs.splice(0)) await spec.close?.();
  place.checkEmpty();
});

afterAll(async () => {
  await place.close();
});

function agent(module: string, more: Record<string, unknown> = {}, baseDir = FIXTURES): AgentSpec {
  const config = ModuleConfig.parse({ type: "module", module, ...more });
  const spec = moduleAgent("mine", config, { processes: place.processes, baseDir });
  specs.push(spec);
  return spec;
}

function scripted(script: unknown): AgentSpec {
  return agent("./scripted.mjs", { config: { script } });
}

function toldBy(outcome: Ended): Record<string, unknown> {
  return JSON.parse(outcome.record.output) as Record<string, unknown>;
}

describe("a module agent", () => {
  it("runs a TypeScript module in a process of its own, which stays warm for the next turn", async () => {
    const spec = agent("./defined.ts", { env: ["SHOWN"] });
    const first = await place.run(spec, { history: [{ role: "user", content: "a" }] });
    expect(first.record).toMatchObject({ status: "completed", crashed: false });
    const told = toldBy(first);
    expect(told).toMatchObject({ turns: 1, shown: "yes", history: 1, idempotencyKey: "turn-1~1" });
    expect(told["secret"]).toBeUndefined();
    expect(told["mark"]).toContain("/turn-1/1/");
    expect(told["pid"]).not.toBe(process.pid);
    expect(toldBy(await place.run(spec))).toMatchObject({ turns: 2, pid: told["pid"] });
  });

  it("U12: is shown the turn's metadata where the config or the agent itself asks for it", async () => {
    const request = { metadata: { k: 1 } };
    const shown = async (spec: AgentSpec): Promise<unknown> => {
      await spec.learn?.();
      return toldBy(await place.run(spec, { request }))["metadata"];
    };
    expect(await shown(agent("./defined.ts"))).toBeUndefined();
    expect(await shown(agent("./defined.ts", { metadata: true }))).toEqual({ k: 1 });
    expect(await shown(agent("./asking.mjs"))).toEqual({ k: 1 });
    expect(await shown(agent("./asking.mjs", { metadata: false }))).toBeUndefined();
  });

  it("runs a subclass of Agent with its config, and its record is the one that it built", async () => {
    const { record, events } = await place.run(
      scripted([
        { call: "m" },
        { say: "Hi {input}" },
        { tool: "look", result: 1 },
        { usage: { inputTokens: 5 } },
        { stepEnd: true },
        { answer: "done" },
      ]),
    );
    expect(record).toMatchObject({
      status: "completed",
      output: "done",
      agent: "mine",
      usage: { inputTokens: 5, known: "reported", modelCalls: 1 },
    });
    expect(record.steps[0]?.toolCalls).toMatchObject([{ name: "look", status: "ok" }]);
    expect(events.filter((event) => event.type === "agent_start" || event.type === "agent_end")).toHaveLength(2);
  });

  it("finds the agent by `export`, or says which there are", async () => {
    expect((await place.run(agent("./two.mjs", { export: "one" }))).record.output).toBe("from one");
    expect((await place.run(agent("./two.mjs", { export: "default" }))).record.output).toBe("from two");
    const { record } = await place.run(agent("./two.mjs"));
    expect(record.failure).toMatchObject({
      code: "config",
      message: expect.stringMatching(/2 agents \(.*one.*\)/) as string,
    });
  });

  it.each([
    ["./gone.ts", undefined, "does not exist"],
    ["./broken.mjs", "export const agent = {", "cannot be loaded"],
    ["./broken.ts", "export const agent: = {", "cannot be loaded"],
    ["./throws.mjs", 'throw new Error("no database")', "no database"],
    ["./none.mjs", "export const nothing = 1", "exports no agent"],
  ])(
    "A46: %s is a wrong config that names the file, is not tried again and leaves no process",
    async (module, code, what) => {
      if (code !== undefined) writeFileSync(join(place.folder, module), code);
      const spec = agent(module, {}, place.folder);
      for (let round = 0; round < 3; round += 1) {
        const { record } = await place.run(spec);
        expect(record).toMatchObject({ status: "failed", failure: { code: "config", retryable: false } });
        expect(record.failure?.message).toContain(module);
        expect(record.failure?.message).toContain(what);
      }
      expect(place.alive()).toEqual([]);
    },
  );

  it("what it throws keeps its code; its process is replaced", async () => {
    const spec = agent("./defined.ts");
    const before = toldBy(await place.run(spec));
    const { record } = await place.run(spec, { request: { input: "throw" } });
    expect(record).toMatchObject({ status: "failed", failure: { code: "quota_exhausted" } });
    const crashed = await place.run(scripted([{ say: "half" }, { crash: "boom" }]));
    expect(crashed.record).toMatchObject({ status: "crashed", output: "half", crashReason: "boom" });
    expect(toldBy(await place.run(spec))["turns"]).toBeGreaterThan(0);
    expect(typeof before["pid"]).toBe("number");
  });

  it("A44, C23: its process is killed or exits in mid-turn: the attempt says how, with what there was", async () => {
    const killed = await place.run(scripted([{ say: "half" }, { tool: "look", open: true }, { exit: "SIGKILL" }]));
    expect(killed.record).toMatchObject({ status: "crashed", output: "half" });
    expect(killed.record.crashReason).toContain("killed by SIGKILL (maybe out of memory)");
    const spec = agent("./defined.ts");
    const gone = await place.run(spec, { request: { input: "exit" } });
    expect(gone.record.failure).toMatchObject({
      code: "agent_crash",
      message: expect.stringContaining("exited with code 0 in the middle") as string,
    });
    expect((await place.run(spec)).record.status).toBe("completed");
  });

  it("stops when told, and says at what; a late word of one turn is not taken for the next one's", async () => {
    const spec = agent("./defined.ts");
    const attempt = place.start(spec, { request: { input: "wait" } });
    await until("it waits", () => attempt.events.some((event) => event.type === "step_end"));
    attempt.stop("shutdown");
    expect((await ended(attempt)).record).toMatchObject({
      status: "interrupted",
      crashed: false,
      output: "stopped: shutdown",
    });
    const limited = await place.run(spec, { request: { input: "wait" }, limits: { maxSteps: 1 } });
    expect(limited).toMatchObject({
      stopReason: "max_steps",
      record: { status: "limit_reached", output: "stopped: max_steps" },
    });
    await place.run(spec, { request: { input: "late" } });
    const next = await place.run(spec, { request: { input: "wait" }, limits: { timeoutMs: 8000, graceMs: 7900 } });
    expect(next.record).toMatchObject({ status: "stopped_early", output: "stopped: deadline" });
    expect(JSON.stringify(next.events)).not.toContain("late");
  });

  it("D20: an endless loop is killed at the deadline, while other turns of the worker go on", async () => {
    const spec = agent("./defined.ts");
    await Promise.all([place.run(spec), place.run(spec)]);
    const looping = place.start(spec, { request: { input: "loop" }, limits: { timeoutMs: 4000 } });
    await until("it loops", () => looping.events.some((event) => event.type === "text_delta"));
    const others: string[] = [];
    for (let n = 0; n < 3; n += 1) others.push((await place.run(spec)).record.status);
    expect(others).toEqual(["completed", "completed", "completed"]);
    const { record } = await ended(looping);
    expect(record).toMatchObject({ status: "timeout", crashed: true, output: "before the loop" });
  });

  it("the time that its module takes to load is part of the deadline", async () => {
    const { record } = await place.run(agent("./slow.mjs"), { limits: { timeoutMs: 60_000 } });
    expect(record.status).toBe("completed");
    expect(Number(record.output)).toBeLessThanOrEqual(60_000 - 200);
  });

  it("what it forks into another session is dead when its Result is there, after a good turn and after a timeout", async () => {
    const spec = scripted([{ say: "warm" }]);
    await place.run(spec);
    for (const hang of [false, true]) {
      const pidFile = join(place.folder, `pid-${String(hang)}`);
      const script = [{ spawn: true, escape: true, pidFile }, ...(hang ? [{ hang: true }] : [{ say: "done" }])];
      const { record } = await place.run(spec, {
        request: { options: { script: script as Json } },
        limits: { timeoutMs: 4000 },
      });
      expect(record.status).toBe(hang ? "timeout" : "completed");
      expect(existsSync(pidFile)).toBe(true);
      expect(isAlive(Number(readFileSync(pidFile, "utf8")))).toBe(false);
    }
  });
});

describe("a runner", () => {
  it("is not used again when a turn left a timer in it that would go off in the next one", async () => {
    const spec = agent("./litter.mjs");
    const run = async (input: string): Promise<string> => {
      const { record } = await place.run(spec, { request: { input } });
      expect(record.status).toBe("completed");
      return record.output;
    };
    const first = await run("clean");
    expect(await run("litter")).toBe(first);
    const next = await run("clean");
    expect(next).not.toBe(first);
    expect(await run("clean")).toBe(next);
  });

  it("invariant 5: is found by the mark of the turn that it runs, as the next attempt's sweep looks for it, and by none between turns", async () => {
    const spec = scripted([{ say: "here" }, { hang: true }]);
    const running = place.start(spec, { limits: { timeoutMs: 60_000 } });
    const pattern = { store: place.store, lane: spec.lane, turn: running.turn };
    await until("the runner shows its turn", () => alive(pattern).length === 1);
    // What another worker of this machine does before it begins the next attempt, while this one is frozen.
    await sweepMarks(pattern);
    expect(alive(pattern)).toEqual([]);
    const { record } = await running.done;
    expect(record).toMatchObject({ status: "crashed", crashed: true });

    const warm = scripted([{ say: "done" }]);
    const second = place.start(warm);
    expect((await second.done).record.output).toBe("done");
    expect(alive({ store: place.store, turn: second.turn })).toEqual([]);
    expect(alive({ store: place.store, attempt: 0 }).length).toBeGreaterThan(0);
  });
});

describe("limits that a module's agent cannot hold", () => {
  it("are known once it was loaded, and refused at its start otherwise", async () => {
    const spec = agent("./two.mjs", { export: "default" });
    await spec.learn?.();
    expect(spec.abilities).toMatchObject({ cooperativeStop: false, announcesCalls: true });
    expect(spec.problem).toBeUndefined();
    const { record } = await place.run(agent("./two.mjs", { export: "default" }), { limits: { maxSteps: 3 } });
    expect(record.failure).toMatchObject({
      code: "invalid_request",
      message: expect.stringContaining("maxSteps") as string,
    });
  });

  it("a module that cannot be loaded has a problem, and leaves no process", async () => {
    const spec = agent("./gone.mjs");
    await spec.learn?.();
    expect(spec.problem).toContain("gone.mjs");
    expect(place.alive()).toEqual([]);
  });

  it("what was loaded to learn them takes the first turn: a module is loaded once", async () => {
    const spec = agent("./defined.ts");
    await spec.learn?.();
    const [pid, ...others] = place.alive();
    expect(others).toEqual([]);
    expect(toldBy(await place.run(spec))).toMatchObject({ turns: 1, pid });
  });
});

describe("the runners of a module", () => {
  it("A46: are never more than turns at once, and none after a while without work", async () => {
    const config = ModuleConfig.parse({ type: "module", module: "./defined.ts" });
    const pool = new RunnerPool({
      name: "m",
      lane: "m",
      module: config,
      processes: place.processes,
      baseDir: FIXTURES,
      idleMs: 50,
    });
    const two = [pool.take(), pool.take()];
    await Promise.all(two.map((runner) => runner.facts));
    expect(pool.size).toEqual({ all: 2, idle: 0 });
    for (const runner of two) pool.giveBack(runner);
    const again = pool.take();
    expect(two).toContain(again);
    expect(pool.size.all).toBe(2);
    pool.giveBack(again);
    await until("all have ended", () => pool.size.all === 0);
    expect(place.alive()).toEqual([]);
  });

  function worker(mode: string): { child: ChildProcess; seen: { text: string }; exited: Promise<unknown[]> } {
    const program = fileURLToPath(new URL("../../fixtures/process/runner-worker.mjs", import.meta.url));
    const child = spawn(process.execPath, [program, place.store, mode], { stdio: ["ignore", "pipe", "inherit"] });
    const seen = { text: "" };
    child.stdout.on("data", (chunk: Buffer) => (seen.text += chunk.toString()));
    return { child, seen, exited: once(child, "exit") };
  }

  it("an idle one keeps no worker from exiting, and ends with it", async () => {
    const { seen, exited } = worker("say");
    expect(await exited).toEqual([0, null]);
    expect(seen.text).toContain("completed");
    await until("nothing of it is alive", () => place.alive().length === 0);
  });

  it("one in an endless loop is dead soon after a kill -9 of its worker", async () => {
    const { child, seen, exited } = worker("loop");
    await until("it loops", () => seen.text.includes("looping"));
    child.kill("SIGKILL");
    expect(await exited).toEqual([null, "SIGKILL"]);
    await until("nothing of it is alive", () => place.alive().length === 0);
  });
});
