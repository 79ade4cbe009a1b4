import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { ModuleConfig } from "../../../src/agents/module/module-config.ts";
import { moduleAgent } from "../../../src/agents/module/module-agent.ts";
import type { AgentSpec } from "../../../src/agent/agent-spec.ts";
import { Place, ended } from "./attempt.ts";

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

let modules = 0;

/** An agent that notes each load and each turn that it began, with its pid; `onLoad` and `onTurn` are its code. */
function noting(code: { readonly onLoad?: string; readonly onTurn?: string }): {
  readonly spec: AgentSpec;
  readonly notes: () => { readonly loads: number[]; readonly turns: number[] };
} {
  const path = join(place.folder, `noting-${++modules}`);
  writeFileSync(`${path}.notes`, "");
  writeFileSync(
    `${path}.mjs`,
    `import { appendFileSync, readFileSync } from "node:fs";
    import { defineAgent } from ${JSON.stringify(DIST)};
    const file = ${JSON.stringify(`${path}.notes`)};
    const note = (what) => appendFileSync(file, what + " " + process.pid + "\\n");
    const die = () => process.kill(process.pid, "SIGKILL");
    note("load");
    const loads = readFileSync(file, "utf8").split("load").length - 1;
    ${code.onLoad ?? ""};
    export default defineAgent("noting", ({ text }) => {
      note("turn");
      ${code.onTurn ?? ""};
      return text;
    });`,
  );
  const config = ModuleConfig.parse({ type: "module", module: `${path}.mjs` });
  const spec = moduleAgent("mine", config, { processes: place.processes, baseDir: place.folder });
  specs.push(spec);
  const pids = (what: string): number[] =>
    readFileSync(`${path}.notes`, "utf8")
      .split("\n")
      .filter((line) => line.startsWith(what))
      .map((line) => Number(line.split(" ")[1]));
  return { spec, notes: () => ({ loads: pids("load"), turns: pids("turn") }) };
}

test("U04: a warm runner that is killed between two turns is replaced, and the next turn's first attempt ends well", async () => {
  const { spec, notes } = noting({});
  await place.run(spec);
  const [warm = 0] = notes().turns;
  process.kill(warm, "SIGKILL");
  // Its end is not known yet: the turn is given to a dead process.
  expect((await place.run(spec)).record).toMatchObject({ status: "completed", crashed: false });
  const { loads, turns } = notes();
  expect([loads.length, turns.length]).toEqual([2, 2]);
  expect(turns[1]).not.toBe(warm);
});

test("U04: a runner that dies after it was picked and before it took the turn is replaced, and the turn runs once", async () => {
  const { spec, notes } = noting({});
  await place.run(spec);
  const [warm = 0] = notes().turns;
  process.kill(warm, "SIGSTOP");
  const attempt = place.start(spec);
  await new Promise((resolve) => setImmediate(resolve));
  process.kill(warm, "SIGKILL");
  expect((await ended(attempt)).record).toMatchObject({ status: "completed", crashed: false });
  expect(notes().turns).toHaveLength(2);
});

test("U04: one that dies with the first line of the turn's code has run it: the attempt is spent, and nothing is run again", async () => {
  const { spec, notes } = noting({ onTurn: "die()" });
  for (let n = 0; n < 3; n += 1) {
    const { record } = await place.run(spec);
    expect(record).toMatchObject({ status: "crashed", failure: { code: "agent_crash" } });
    expect(record.crashReason).toContain("in the middle of the turn");
  }
  expect(notes().turns).toHaveLength(3);
});

test("U04: one that dies while it loads its module is replaced; one that always does ends the attempt, and says when it died", async () => {
  const once = noting({ onLoad: "if (loads === 1) die()" });
  expect((await place.run(once.spec)).record.status).toBe("completed");
  expect(once.notes().loads).toHaveLength(2);

  const always = noting({ onLoad: "die()" });
  const { record } = await place.run(always.spec);
  expect(record).toMatchObject({ status: "crashed", failure: { code: "agent_crash" } });
  expect(record.crashReason).toContain("while its module was loaded");
  expect(always.notes().loads).toHaveLength(3);
});

test("U04: a supervisor that is killed between two turns is replaced, spends no attempt, and the next turn's deadline holds", async () => {
  const { spec } = noting({ onTurn: 'if (text === "loop") for (;;);' });
  await place.run(spec);
  const before = place.processes.supervisorPid ?? 0;
  process.kill(before, "SIGKILL");
  expect((await place.run(spec)).record).toMatchObject({ status: "completed", crashed: false });
  const looping = await place.run(spec, { request: { input: "loop" }, limits: { timeoutMs: 1500 } });
  expect(looping.record).toMatchObject({ status: "timeout" });
  expect(place.processes.supervisorPid).toBeDefined();
  expect(place.processes.supervisorPid).not.toBe(before);
});
