import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { unsupportedLimits, type AgentSpec } from "../../../src/agent/agent-spec.ts";
import { defineAgent, specOf } from "../../../src/agent/define-agent.ts";
import { chatAgent } from "../../../src/agents/chat/chat-agent.ts";
import { commandAgent } from "../../../src/agents/command/command-agent.ts";
import { CommandConfig } from "../../../src/agents/command/command-config.ts";
import { moduleAgent } from "../../../src/agents/module/module-agent.ts";
import { ModuleConfig } from "../../../src/agents/module/module-config.ts";
import { LimitsInput } from "../../../src/domain/limits.ts";
import { isAlive } from "../process/machine.ts";
import { Place } from "./attempt.ts";

const DIST = pathToFileURL(join(import.meta.dirname, "../../../dist/src/agent/define-agent.js")).href;

let place: Place;
const specs: AgentSpec[] = [];

beforeAll(() => {
  place = new Place();
});
afterEach(async () => {
  for (const spec of specs.splice(0)) await spec.close?.();
  place.checkEmpty();
});
afterAll(() => place.close());

function program(code: string, output: "text" | "events" = "text"): AgentSpec {
  const config = CommandConfig.parse({ type: "command", command: [process.execPath, "-e", code], output });
  return commandAgent("program", config, place.deps);
}

/** A module whose agent does this with its input, in `text`. */
function inModule(code: string, onLoad = ""): AgentSpec {
  const path = join(place.folder, `memory-${specs.length}.mjs`);
  writeFileSync(
    path,
    `import { spawn } from "node:child_process";
    import { getHeapStatistics } from "node:v8";
    import { defineAgent } from ${JSON.stringify(DIST)};
    const kept = [];
    ${onLoad};
    const pause = () => new Promise((resolve) => setTimeout(resolve, 5));
    export default defineAgent("m", async ({ text, emit }) => { ${code}; return String(process.pid); });`,
  );
  const spec = moduleAgent("m", ModuleConfig.parse({ type: "module", module: path }), place.deps);
  specs.push(spec);
  return spec;
}

const limits = { maxMemoryMb: 150 };
const OVER = { status: "crashed", crashed: true, failure: { code: "out_of_memory" } } as const;
const EATS = "const a = []; setInterval(() => a.push(Buffer.alloc(1e7, 1)), 5)";

test("U13: a program whose grandchild in a session of its own takes the memory is killed with it, and what it said is kept", async () => {
  const pids = join(place.folder, "pids");
  const grandchild = `require("fs").writeFileSync(${JSON.stringify(pids)}, String(process.pid)); ${EATS}`;
  const child = `require("child_process").spawn(process.execPath, ["-e", ${JSON.stringify(grandchild)}], {detached: true, stdio: "ignore"}).unref()`;
  const code = `process.stdout.write("so far"); require("child_process").execFileSync(process.execPath, ["-e", ${JSON.stringify(child)}]); setInterval(() => {}, 1e6)`;
  const { record } = await place.run(program(code), { limits });
  expect(record).toMatchObject({ ...OVER, output: "so far" });
  expect(record.crashReason).toMatch(/held \d+ MB of memory together, over limits\.maxMemoryMb of 150/);
  expect(isAlive(Number(readFileSync(pids, "utf8")))).toBe(false);
});

test("U13: a result that was given before the memory was taken is kept", async () => {
  const code = `console.log(JSON.stringify({type: "result", output: "paid"})); const a = []; for (;;) a.push(Buffer.alloc(1e7, 1))`;
  const { record } = await place.run(program(code, "events"), { limits });
  expect(record).toMatchObject({ status: "completed", output: "paid" });
});

test("U13: what processes share is counted once: forks of a large one that write nothing are not over", async () => {
  const code = [
    "import os, time",
    "held = bytearray(b'x') * (80 * 1024 * 1024)",
    "for _ in range(3):",
    "    if os.fork() == 0:",
    "        time.sleep(0.6)",
    "        os._exit(0)",
    "for _ in range(3): os.wait()",
    "print('shared')",
  ].join("\n");
  const config = CommandConfig.parse({ type: "command", command: ["python3", "-c", code], output: "text" });
  const { record } = await place.run(commandAgent("forks", config, place.deps), { limits });
  expect(record).toMatchObject({ status: "completed", output: "shared\n" });
});

test("U13: a module that fills its heap, one that takes it outside of the heap, and one whose child does: out_of_memory, and the partial record", async () => {
  const heap = inModule('emit.text("so far"); await pause(); for (;;) kept.push(Array(1e5).fill(0))');
  const buffers = inModule('emit.text("so far"); for (;;) { kept.push(Buffer.alloc(1e7, 1)); await pause(); }');
  const child = inModule(
    `emit.text("so far"); spawn(process.execPath, ["-e", ${JSON.stringify(EATS)}], { stdio: "ignore" }); for (;;) await pause()`,
  );
  for (const spec of [heap, buffers, child]) {
    const { record } = await place.run(spec, { limits });
    expect(record).toMatchObject({ ...OVER, output: "so far" });
    expect(record.crashReason).toContain("limits.maxMemoryMb of 150");
  }
});

test("U13: garbage is no memory: V8 clears up within the limit of a module, since its heap is smaller than that", async () => {
  const spec = inModule("return String(getHeapStatistics().heap_size_limit / 2 ** 20)");
  const heapOf = async (maxMemoryMb: number): Promise<number> =>
    Number((await place.run(spec, { limits: { maxMemoryMb } })).record.output);
  expect(await heapOf(150)).toBeLessThan(150 - 40);
  expect(await heapOf(1000)).toBeLessThan(1000 - 40);
});

test("U13: what a turn leaves in its runner does not end the next turn; another limit is another runner", async () => {
  const spec = inModule('if (text === "keep") kept.push(Buffer.alloc(70e6, 1))');
  const pid = async (input: string, maxMemoryMb = 150): Promise<string> => {
    const { record } = await place.run(spec, { limits: { maxMemoryMb }, request: { input } });
    expect(record.status).toBe("completed");
    return record.output;
  };
  const first = await pid("nothing");
  expect(await pid("nothing")).toBe(first);
  expect(await pid("keep")).toBe(first);
  const next = await pid("nothing");
  expect(next).not.toBe(first);
  expect(await pid("nothing", 200)).not.toBe(next);
});

test("U13: a module that does not fit into its memory is not loaded again and again", async () => {
  const { record } = await place.run(inModule("", "for (;;) kept.push(Buffer.alloc(1e7, 1))"), { limits });
  expect(record).toMatchObject({ ...OVER, output: "" });
});

test("U13: when memory is short the system takes programs and runners, and not the worker", async () => {
  const ours = Number(readFileSync("/proc/self/oom_score_adj", "utf8"));
  const told = await place.run(
    program('process.stdout.write(require("fs").readFileSync("/proc/self/oom_score_adj", "utf8"))'),
  );
  expect(Number(told.record.output)).toBe(Math.max(ours, 500));
});

test("U13: the limit is refused for an agent that runs inside the worker, and has bounds", () => {
  const inline = specOf(defineAgent("inline", () => ""));
  const base = { type: "chat", provider: "openai-compatible", baseUrl: "http://127.0.0.1:9/v1", model: "m" } as const;
  const chat = chatAgent("chat", base, { baseDir: ".", env: {} });
  for (const { abilities } of [inline, chat])
    expect(unsupportedLimits(abilities, limits)).toMatch(/maxMemoryMb needs an agent in processes of its own/);
  for (const { abilities } of [program(""), inModule("")]) expect(unsupportedLimits(abilities, limits)).toBeUndefined();
  for (const maxMemoryMb of [0, 15, 1.5, 2 ** 24 + 1, Infinity])
    expect(LimitsInput.safeParse({ maxMemoryMb }).success).toBe(false);
});
