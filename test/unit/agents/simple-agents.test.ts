import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { TurnRecord } from "../../../src/domain/turn-record.ts";
import type { Agent } from "../../../src/agent/agent.ts";
import type { AttemptInit } from "../../../src/agent/agent-spec.ts";
import { echoAgent } from "../../../src/agents/echo/echo-agent.ts";
import { noopAgent } from "../../../src/agents/noop/noop-agent.ts";
import { scriptedAgent } from "../../../src/agents/scripted/scripted-agent.ts";
import { ScriptedConfig, type Script } from "../../../src/agents/scripted/script.ts";
import { attemptInit, isProcessAlive, startOptions } from "../../agents.ts";

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "turnq-"));
});
afterEach(() => {
  rmSync(dir, { recursive: true, force: true });
});

async function scripted(script: Script | undefined, init: Partial<AttemptInit> = {}): Promise<Agent> {
  const agent = scriptedAgent("s", { script }).create(attemptInit(init));
  await agent.start(startOptions({ workingDirectory: dir }));
  return agent;
}

async function play(script: Script | undefined, init: Partial<AttemptInit> = {}): Promise<TurnRecord> {
  return await (await scripted(script, init)).communicate("hello");
}

describe("echo and noop", () => {
  it("echo answers with its input and has used nothing, for certain", async () => {
    const agent = echoAgent().create(attemptInit());
    await agent.start(startOptions());
    const record = await agent.communicate([{ type: "text", text: "a b" }]);
    expect(record).toMatchObject({
      output: "a b",
      status: "completed",
      usage: { modelCalls: 0, toolCalls: 0, known: "reported" },
    });
  });

  it("echo stops when told before it has begun", async () => {
    const agent = echoAgent().create(attemptInit());
    await agent.start(startOptions());
    expect(await agent.communicate("x", { shouldStop: () => "shutdown" })).toMatchObject({
      status: "interrupted",
      output: "",
    });
  });

  it("noop answers with nothing", async () => {
    const agent = noopAgent().create(attemptInit());
    await agent.start(startOptions());
    expect(await agent.communicate("x")).toMatchObject({ output: "", status: "completed", steps: [] });
  });

  it("their specs", () => {
    const specs = [echoAgent(), noopAgent("n", { lane: "fast" }), scriptedAgent()];
    expect(specs.map(({ name, lane, kind }) => [name, lane, kind])).toEqual([
      ["echo", "echo", "echo"],
      ["n", "fast", "noop"],
      ["scripted", "scripted", "scripted"],
    ]);
    for (const { abilities } of specs) expect(abilities).toEqual({ cooperativeStop: true, announcesCalls: true });
  });
});

describe("scripted", () => {
  it("says its input without a script, and fills in what it knows", async () => {
    expect((await play(undefined)).output).toBe("hello");
    const script = [{ say: "{turn} {attempt} {iteration} {history} {nobody}" }];
    expect((await play(script, { attempt: 3, iteration: 5 })).output).toBe("t1 3 5 0 {nobody}");
  });

  it("plays by the number of the attempt; the request's script comes before the config's", async () => {
    const script = { "1": [{ say: "one" }], "*": [{ say: "other" }] };
    expect((await play(script)).output).toBe("one");
    expect((await play(script, { attempt: 2 })).output).toBe("other");
    expect((await play(script, { options: { script: [{ answer: "mine" }] } })).output).toBe("mine");
  });

  it("a script that is none is a refused configuration", async () => {
    expect(await play(undefined, { options: { script: [{ dance: true }] } })).toMatchObject({
      status: "failed",
      failure: { code: "config" },
    });
    expect(ScriptedConfig.safeParse({ script: { first: [] } }).success).toBe(false);
  });

  it("reports calls, usage, tools, plan, thoughts", async () => {
    const record = await play([
      { call: "m-1" },
      { think: "hm" },
      { usage: { inputTokens: 3 } },
      { tool: "look", args: { at: 1 }, result: "seen", ms: 1 },
      { tool: "touch", status: "denied" },
      { plan: [{ text: "a", status: "pending" }] },
      { call: true },
      { usage: { inputTokens: 4 } },
      { say: "done" },
    ]);
    expect(record).toMatchObject({
      model: "m-1",
      usage: { inputTokens: 7, modelCalls: 2, toolCalls: 2, known: "reported" },
      output: "done",
    });
    expect(record.steps).toHaveLength(2);
  });

  it("fails, stops by itself, ends with nothing, blocks, waits", async () => {
    const failure = { code: "auth" as const, message: "401", retryable: false };
    expect(await play([{ fail: failure }])).toMatchObject({ status: "failed", failure });
    expect(await play([{ say: "a" }, { stop: "max_tokens" }])).toMatchObject({ status: "limit_reached", output: "a" });
    await expect(play([])).rejects.toMatchObject({ code: "agent_crash" });
    expect(await play([{ block: 1 }, { wait: 1 }, { say: "a" }])).toMatchObject({ output: "a" });
  });

  it("waits for a file, and adds lines to one", async () => {
    const [gate, log] = [join(dir, "gate"), join(dir, "log")];
    const agent = await scripted([
      { append: log, line: "{turn} began" },
      { waitFor: gate },
      { append: log, line: "ended" },
      { say: "a" },
    ]);
    const turn = agent.communicate("x");
    await vi.waitFor(() => expect(readFileSync(log, "utf8")).toBe("t1 began\n"));
    writeFileSync(gate, "");
    await turn;
    expect(readFileSync(log, "utf8")).toBe("t1 began\nended\n");
  });

  it("its programs bear the mark and are dead after stop", async () => {
    const pidFile = join(dir, "pid");
    const agent = await scripted([{ spawn: true, pidFile }, { say: "a" }], { mark: "store/lane/t1/1/w" });
    await agent.communicate("x");
    const pid = Number(readFileSync(pidFile, "utf8"));
    expect(isProcessAlive(pid)).toBe(true);
    if (existsSync("/proc"))
      expect(readFileSync(`/proc/${pid}/environ`, "utf8")).toContain("TURNQ_TURN=store/lane/t1/1/w\0");
    await agent.stop();
    expect(isProcessAlive(pid)).toBe(false);
  });

  it("what escapes is for whoever sweeps", async () => {
    const pidFile = join(dir, "pid");
    const agent = await scripted([{ spawn: true, escape: true, pidFile }, { say: "a" }]);
    await agent.communicate("x");
    await agent.kill();
    const pid = Number(readFileSync(pidFile, "utf8"));
    expect(isProcessAlive(pid)).toBe(true);
    process.kill(pid, "SIGKILL");
  });
});
