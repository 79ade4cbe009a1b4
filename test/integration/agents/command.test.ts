import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { CommandConfig } from "../../../src/agents/command/command-config.ts";
import { commandAgent } from "../../../src/agents/command/command-agent.ts";
import type { AgentSpec } from "../../../src/agent/agent-spec.ts";
import { until, isAlive } from "../process/machine.ts";
import { Place, ended } from "./attempt.ts";

let place: Place;

beforeAll(() => {
  place = new Place();
});

afterEach(() => {
  place.checkEmpty();
});

afterAll(async () => {
  await place.close();
});

const PRELUDE = `
  const fs = require("node:fs");
  const { spawn } = require("node:child_process");
  const put = (text, fd = 1) => { const b = Buffer.from(text); let at = 0; while (at < b.length) { try { at += fs.writeSync(fd, b, at); } catch (e) { if (e.code !== "EAGAIN") throw e; } } };
  const say = (line) => put(JSON.stringify(line) + "\\n");
  const hang = () => setInterval(() => {}, 1000);
  const input = () => JSON.parse(fs.readFileSync(0, "utf8"));
`;

function program(code: string, more: Record<string, unknown> = {}): AgentSpec {
  const config = { type: "command", command: [process.execPath, "-e", PRELUDE + code], output: "events", ...more };
  return commandAgent("prog", CommandConfig.parse(config), place.deps);
}

function text(code: string, more: Record<string, unknown> = {}): AgentSpec {
  return program(code, { output: "text", ...more });
}

describe("the command protocol", () => {
  it("C29: tells a whole turn: request in with its idempotency key, events, usage, steps and result out", async () => {
    const spec = program(`
      const q = input();
      say({ type: "step_start" });
      say({ type: "call_start", model: "m" });
      say({ type: "thought", text: "hm" });
      say({ type: "text", text: "Looking. " });
      say({ type: "tool_start", id: "t1", name: "look", args: { q: q.input } });
      say({ type: "tool_end", id: "t1", result: [1, 2], status: "ok" });
      say({ type: "usage", inputTokens: 10, outputTokens: 2, costUsd: 0.5 });
      say({ type: "usage", inputTokens: 10, outputTokens: 2, costUsd: 0.5 });
      say({ type: "step_end" });
      say({ type: "plan", plan: [{ text: "answer", status: "completed" }] });
      say({ type: "result", output: JSON.stringify(q) });
    `);
    const history = [{ role: "user" as const, content: "before" }];
    const request = { target: "T", metadata: { m: 1 }, options: { model: "x" } };
    const { record, events } = await place.run(spec, { history, request });
    expect(record).toMatchObject({
      status: "completed",
      crashed: false,
      plan: [{ text: "answer", status: "completed" }],
    });
    const asked = JSON.parse(record.output) as Record<string, unknown>;
    expect(asked).toMatchObject({
      turn: "turn-1",
      attempt: 1,
      input: "hello",
      history,
      options: { model: "x" },
      idempotencyKey: "turn-1~1",
    });
    expect(asked["limits"]).toMatchObject({ timeoutMs: 600_000 });
    expect(Object.keys(asked)).not.toContain("target");
    expect(Object.keys(asked)).not.toContain("metadata");
    expect(record.usage).toEqual({
      inputTokens: 10,
      outputTokens: 2,
      costUsd: 0.5,
      modelCalls: 1,
      toolCalls: 1,
      known: "reported",
    });
    expect(record.steps[0]?.toolCalls).toMatchObject([{ id: "t1", name: "look", status: "ok", result: [1, 2] }]);
    expect(record.environment).toMatchObject({ exitCode: 0 });
    expect(events.map((event) => event.type).slice(0, 6)).toEqual([
      "agent_start",
      "step_start",
      "call_start",
      "thought_delta",
      "text_delta",
      "tool_start",
    ]);
  });

  it("shows the metadata where the config says so", async () => {
    const spec = program(`say({ type: "result", output: input().metadata.m })`, { metadata: true });
    expect((await place.run(spec, { request: { metadata: { m: "seen" } } })).record.output).toBe("seen");
  });

  it("never reports usage: it is unknown, not zero", async () => {
    const { record } = await place.run(program(`say({ type: "result", output: "x" })`));
    expect(record.usage).toMatchObject({ known: "unknown" });
    expect(record.usage.inputTokens).toBeUndefined();
  });

  it("C32: takes usage as cumulative, and refuses what is negative, absurd or goes back", async () => {
    const { record } = await place.run(
      program(`
        say({ type: "usage", inputTokens: 100, outputTokens: 5 });
        say({ type: "usage", inputTokens: -1 });
        say({ type: "usage", inputTokens: 1e15 });
        say({ type: "usage", inputTokens: 3.5 });
        say({ type: "usage", inputTokens: 40 });
        say({ type: "usage", outputTokens: 9 });
        say({ type: "result", output: "x" });
      `),
    );
    // What the refused reports stood for is not known: the sum is a floor.
    expect(record.usage).toMatchObject({ inputTokens: 100, outputTokens: 9, known: "partial" });
    expect(record.environment).toMatchObject({ ignoredLines: 4 });
  });

  it("an error line is a failed turn that keeps its spend, with the code and the word on a retry", async () => {
    const { record } = await place.run(
      program(`
        say({ type: "usage", inputTokens: 7 });
        say({ type: "error", message: "quota", code: "rate_limited", retryable: true });
        say({ type: "result", output: "too late" });
      `),
    );
    expect(record).toMatchObject({
      status: "failed",
      crashed: false,
      output: "",
      failure: { code: "rate_limited", message: "quota", retryable: true },
      usage: { inputTokens: 7 },
    });
    const unknown = await place.run(program(`say({ type: "error", message: "no", code: "cancelled" })`));
    expect(unknown.record.failure).toMatchObject({ code: "agent_error", retryable: false });
  });

  it("C18: log lines, banners and half objects on stdout are kept as a log and hurt nothing", async () => {
    const { record } = await place.run(
      program(`
        for (const line of ["INFO start", "[1] x", "{", "null", "42", "\\u001b[31mred\\u001b[0m", '{"type":"later"}', '{"a":1}', "[]"]) put(line + "\\n");
        say({ type: "text", text: "fine" });
        put("   \\r\\n" + JSON.stringify({ type: "result" }) + "\\r\\n");
      `),
    );
    expect(record).toMatchObject({ status: "completed", output: "fine" });
    expect(record.environment).toMatchObject({ ignoredLines: 2 });
    expect(record.environment["log"]).toContain("INFO start");
  });

  it("C17: a line of 5 MB is read, one of 64 MB is skipped and counted, the lines beside it are kept", async () => {
    const { record } = await place.run(
      program(`
        say({ type: "tool_start", id: "a", name: "big", args: "x".repeat(5e6) });
        say({ type: "tool_end", id: "a", status: "ok" });
        put('{"type":"text","text":"');
        for (let i = 0; i < 64; i++) put("y".repeat(1e6));
        put('"}\\n');
        say({ type: "text", text: "after" });
        say({ type: "result" });
      `),
    );
    expect(record).toMatchObject({ status: "completed", output: "after", environment: { skippedLines: 1 } });
    expect(record.steps[0]?.toolCalls[0]?.args).toHaveLength(5e6);
  });

  it("C17, D01: a result over the limit of a line fails for that reason, and is not tried again", async () => {
    const { record } = await place.run(program(`say({ type: "result", output: "x".repeat(9e6) })`));
    expect(record.failure).toMatchObject({ code: "output_too_large", retryable: false });
  });

  it("C14: the result is not lost behind 5 MB, written just before the exit", async () => {
    const spec = program(`
      say({ type: "tool_start", id: "a", name: "t", args: {} });
      for (let i = 0; i < 50; i++) put("log ".repeat(25000) + "\\n");
      say({ type: "result", output: "here" });
      process.exit(0);
    `);
    for (let round = 0; round < 5; round += 1) expect((await place.run(spec)).record.output).toBe("here");
  });
});

describe("the end of a program", () => {
  it("exit 0 without a result is a crash, with or without other events", async () => {
    const silent = await place.run(program(""));
    expect(silent.record).toMatchObject({ status: "crashed", failure: { code: "agent_crash" } });
    expect(silent.record.failure?.message).toContain("exited with code 0 without a result");
    const chatty = await place.run(program(`say({ type: "text", text: "half" })`));
    expect(chatty.record).toMatchObject({ status: "crashed", crashed: true, output: "half" });
  });

  it("C15: a last line that was cut off is named", async () => {
    const { record } = await place.run(program(`put('{"type":"result","outp')`));
    expect(record.failure?.message).toContain("its last line was cut off");
  });

  it("C21: a non-zero exit after a whole result: the result wins, and the exit is in the record", async () => {
    const { record } = await place.run(
      program(`say({ type: "usage", inputTokens: 3 }); say({ type: "result", output: "done" }); process.exit(1)`),
    );
    expect(record).toMatchObject({ status: "completed", output: "done", usage: { inputTokens: 3, known: "reported" } });
    expect(record.environment).toMatchObject({
      exitCode: 1,
      warning: "the program exited with code 1 after its result",
    });
  });

  it("C23, A44: killed by a signal half-way: the signal is named, the partial record kept, usage only a floor", async () => {
    const { record, events } = await place.run(
      program(`
        say({ type: "usage", inputTokens: 3 });
        say({ type: "tool_start", id: "a", name: "t", args: 1 });
        process.kill(process.pid, "SIGKILL");
        hang();
      `),
    );
    expect(record).toMatchObject({ status: "crashed", crashed: true, usage: { inputTokens: 3, known: "partial" } });
    expect(record.crashReason).toContain("killed by SIGKILL (maybe out of memory)");
    expect(record.steps[0]?.toolCalls).toMatchObject([{ status: "unresolved" }]);
    expect(events.at(-1)).toMatchObject({ type: "agent_end", crashed: true });
  });

  it("C24: a program that never exits after its result ends with that result, and is killed", async () => {
    const { record } = await place.run(program(`say({ type: "result", output: "done" }); hang()`));
    expect(record).toMatchObject({ status: "completed", output: "done" });
    expect(record.environment["warning"]).toContain("did not exit");
  });

  it("a crash tells the end of stderr, with its secrets masked", async () => {
    const { record } = await place.run(
      program(
        `put("x".repeat(1e6) + "\\nkey " + process.env.MY_API_KEY + " Authorization: Bearer abc.def.ghi", 2); process.exit(2)`,
        { env: ["MY_API_KEY"] },
      ),
    );
    expect(record.failure?.message).toContain("exited with code 2");
    expect(record.failure?.message).toContain("key [masked]");
    expect(JSON.stringify(record)).not.toMatch(/very-secret-value|abc\.def/);
    expect(record.failure?.message.length).toBeLessThanOrEqual(4000);
  });

  it("C05: helpers that a good turn leaves behind are dead when its Result is there", async () => {
    const { record } = await place.run(
      program(`
        const pids = [true, false].map((detached) => spawn("sleep", ["60"], { detached, stdio: "inherit" }).pid);
        say({ type: "result", output: pids });
        process.exit(0);
      `),
    );
    const pids = JSON.parse(record.output) as number[];
    expect(pids.map(isAlive)).toEqual([false, false]);
  });

  it("C11, C09: a missing program or folder is a wrong config; a program that reads nothing ends as itself", async () => {
    const missing = await place.run(
      commandAgent("p", CommandConfig.parse({ type: "command", command: ["no-such"] }), place.deps),
    );
    expect(missing.record).toMatchObject({ status: "failed", failure: { code: "config", retryable: false } });
    expect(missing.record.failure?.message).toContain("no-such");
    const folder = await place.run(program("", { cwd: "gone" }));
    expect(folder.record.failure?.message).toContain(join(place.folder, "gone"));
    const deaf = await place.run(program("process.exit(5)"), { request: { input: "x".repeat(5e6) } });
    expect(deaf.record.failure).toMatchObject({
      code: "agent_crash",
      message: expect.stringContaining("code 5") as string,
    });
  });

  it("runs in the config's folder, and looks there for a program with a slash, wherever it runs", async () => {
    mkdirSync(join(place.folder, "sub"));
    writeFileSync(join(place.folder, "run.sh"), "#!/bin/sh\npwd\n", { mode: 0o755 });
    const config = CommandConfig.parse({ type: "command", command: ["./run.sh"], cwd: "sub" });
    const { record } = await place.run(commandAgent("p", config, place.deps));
    expect(record.output.trim()).toMatch(/\/sub$/);
  });
});

describe("an agent that answers in plain text", () => {
  it("C08: all of stdout is the answer, and stdin ends at once", async () => {
    const { record } = await place.run(text(`const q = input(); put("you said " + q.input)`));
    expect(record).toMatchObject({ status: "completed", output: "you said hello", usage: { known: "unknown" } });
  });

  it("may answer nothing, but not with another exit code than 0", async () => {
    expect((await place.run(text(""))).record).toMatchObject({ status: "completed", output: "" });
    const { record } = await place.run(text(`put("half"); console.error("oh"); process.exit(4)`));
    expect(record).toMatchObject({ status: "crashed", output: "half" });
    expect(record.failure?.message).toBe("the program exited with code 4: oh");
  });

  it("C42: 300 MB of output cost no memory; what is over the limit is cut between characters, with a note", async () => {
    const before = process.memoryUsage().rss;
    const { record } = await place.run(
      text(`const part = "é".repeat(500001); for (let i = 0; i < 300; i++) put(part)`),
    );
    expect(record.status).toBe("completed");
    expect(record.output.length).toBeLessThan(8.5e6);
    expect(record.output).toContain("[cut");
    expect(record.output).not.toContain("\ufffd");
    expect(process.memoryUsage().rss - before).toBeLessThan(400e6);
  });
});

describe("the deadline", () => {
  it("kills everything, also what left its session and ignores signals; what was said is in the record", async () => {
    const pidFile = join(place.folder, "pids");
    const spec = program(`
      process.on("SIGTERM", () => {});
      const pids = [spawn("setsid", ["sleep", "60"], { stdio: "ignore" }).pid, spawn("sleep", ["60"], { detached: true }).pid];
      say({ type: "text", text: "so far" });
      fs.writeFileSync(${JSON.stringify(pidFile)}, JSON.stringify([process.pid, ...pids]));
      hang();
    `);
    const { record } = await place.run(spec, { limits: { timeoutMs: 1500 } });
    expect(record).toMatchObject({ status: "timeout", crashed: true, output: "so far", failure: { code: "timeout" } });
    expect(place.alive()).toEqual([]);
    expect((JSON.parse(readFileSync(pidFile, "utf8")) as number[]).map(isAlive)).toEqual([false, false, false]);
  });
});

describe("stops", () => {
  const LISTEN = `
    say({ type: "text", text: "one" });
    say({ type: "step_end" });
    let heard = "";
    process.stdin.on("data", (chunk) => {
      heard += chunk;
      const lines = heard.split("\\n").slice(0, -1).map((line) => JSON.parse(line));
      const stop = lines.find((line) => line.type === "stop");
      if (stop) onStop(stop);
    });
  `;

  it("a program with `stop` is told by a line on its stdin, and its result is one that stopped early", async () => {
    const spec = program(
      `${LISTEN} function onStop(stop) { say({ type: "result", output: "partial: " + stop.reason }); process.exit(0); }`,
      { stop: "stdin" },
    );
    expect(spec.abilities.cooperativeStop).toBe(true);
    const { record, stopReason } = await place.run(spec, { limits: { maxSteps: 1 } });
    expect(record).toMatchObject({ status: "limit_reached", crashed: false, output: "partial: max_steps" });
    expect(stopReason).toBe("max_steps");
  });

  it("a cancel that the program obeys is no crash", async () => {
    const spec = program(`${LISTEN} function onStop() { process.exit(0); }`, { stop: "stdin" });
    const attempt = place.start(spec);
    await until("it speaks", () => attempt.events.some((event) => event.type === "step_end"));
    attempt.stop("cancelled");
    const { record } = await ended(attempt);
    expect(record).toMatchObject({ status: "cancelled", crashed: false, output: "one" });
  });

  it("a result that says it is complete is whole, although a stop was asked for", async () => {
    const spec = program(
      `${LISTEN} function onStop() { say({ type: "result", output: "all", complete: true }); process.exit(0); }`,
      { stop: "stdin" },
    );
    const attempt = place.start(spec);
    await until("it speaks", () => attempt.events.some((event) => event.type === "step_end"));
    attempt.stop("shutdown");
    expect((await ended(attempt)).record).toMatchObject({ status: "completed", output: "all" });
  });

  it("C03: one that ignores the line and SIGTERM is killed when the grace is over", async () => {
    const seen = join(place.folder, "term");
    const spec = program(
      `process.on("SIGTERM", () => fs.writeFileSync(${JSON.stringify(seen)}, "")); process.stdin.on("end", () => say({ type: "text", text: "eof" })); ${LISTEN} function onStop() {} hang();`,
      { stop: "stdin" },
    );
    const attempt = place.start(spec, { limits: { graceMs: 1000 } });
    await until("it speaks", () => attempt.events.some((event) => event.type === "step_end"));
    attempt.stop("cancelled");
    const { record } = await ended(attempt);
    expect(record).toMatchObject({ status: "cancelled", crashed: true, crashReason: "turn cancelled" });
    expect(record.output).toContain("eof");
    expect(existsSync(seen)).toBe(true);
  });

  it("one without `stop` is killed after the grace", async () => {
    const spec = program(`say({ type: "text", text: "one" }); hang()`);
    expect(spec.abilities.cooperativeStop).toBe(false);
    const attempt = place.start(spec, { limits: { graceMs: 50 } });
    await until("it speaks", () => attempt.events.some((event) => event.type === "text_delta"));
    attempt.stop("shutdown");
    expect((await ended(attempt)).record).toMatchObject({ status: "interrupted", crashed: true, output: "one" });
  });
});
