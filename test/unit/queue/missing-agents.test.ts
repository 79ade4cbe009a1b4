import { expect, test } from "vitest";
import type { AgentSpec } from "../../../src/agent/agent-spec.ts";
import { Readying } from "../../../src/agent/readying.ts";
import { MissingAgents, missingError, readyAgents } from "../../../src/queue/missing-agents.ts";
import { readinessOf } from "../../../src/queue/readiness.ts";
import { SILENT } from "../../../src/telemetry/log.ts";
import { FakeClock } from "../../agents.ts";

/** An agent that cannot run until it is told that it can. */
function shaky(name: string, problems: readonly (string | undefined)[]): { spec: AgentSpec; tries: () => number } {
  let tries = 0;
  const loading = new Readying(() => {
    const problem = problems[Math.min(tries++, problems.length - 1)];
    if (problem !== undefined) throw new Error(problem);
  });
  const spec: AgentSpec = {
    name,
    lane: name,
    kind: "module",
    abilities: { cooperativeStop: true, announcesCalls: false },
    get problem() {
      return loading.problem;
    },
    learn: () => loading.done(),
    again: () => loading.again(),
    create: () => {
      throw new Error("not run here");
    },
  };
  return { spec, tries: () => tries };
}

test("U01: every agent that cannot run is named with why, and not the others", async () => {
  const [good, bad, worse] = [shaky("good", [undefined]), shaky("bad", ["no memory"]), shaky("worse", ["no file"])];
  const { working, missing } = await readyAgents([good.spec, bad.spec, worse.spec]);
  expect(working).toEqual([good.spec]);
  const error = missingError(missing, 3);
  expect(error).toMatchObject({
    code: "config",
    details: {
      missing: [
        { agent: "bad", problem: "no memory" },
        { agent: "worse", problem: "no file" },
      ],
    },
  });
  expect(error.message).toContain("2 agents of 3 cannot run here: bad (no memory); worse (no file)");
});

test("U01: what is missing is tried again every 10 s, with the newest reason, until it is served; then no more", async () => {
  const clock = new FakeClock();
  const agent = shaky("late", ["no memory", "half a file", undefined]);
  const served: string[] = [];
  const { missing } = await readyAgents([agent.spec]);
  const refusals = [new Error("Redis is away")];
  const watch = new MissingAgents({
    missing,
    serve: async ({ name }) => {
      const refusal = refusals.pop();
      if (refusal !== undefined) throw refusal;
      served.push(name);
    },
    clock,
    log: SILENT,
  });
  watch.start();
  expect(watch.list).toEqual([{ agent: "late", problem: "no memory" }]);
  await clock.advance(9999);
  expect(agent.tries()).toBe(1);
  await clock.advance(1);
  expect(watch.list).toEqual([{ agent: "late", problem: "half a file" }]);
  // It could run now, but could not be taken up: it is not forgotten for that.
  await clock.advance(10_000);
  expect([agent.tries(), served]).toEqual([3, []]);
  await clock.advance(10_000);
  expect([agent.tries(), served, watch.list]).toEqual([3, ["late"], []]);
  expect(clock.pending).toBe(0);
});

test("U01: a worker that closes tries nothing any more, also when it was just trying", async () => {
  const clock = new FakeClock();
  const agent = shaky("late", ["no memory", undefined]);
  const { missing } = await readyAgents([agent.spec]);
  const watch = new MissingAgents({
    missing,
    serve: () => Promise.reject(new Error("served after the close")),
    clock,
    log: { ...SILENT, warn: (_facts, message) => expect(message).not.toContain("not served") },
  });
  watch.start();
  const tried = clock.advance(10_000);
  watch.stop();
  await tried;
  await clock.advance(60_000);
  expect([agent.tries(), clock.pending]).toEqual([1, 0]);
});

test("U01: readiness names what is missing, and is none where nothing is left to run", () => {
  const missing = [{ agent: "late", problem: "no memory" }];
  expect(readinessOf([], { running: 1, missing: [] })).toEqual({ ready: true });
  expect(readinessOf([], { running: 1, missing })).toEqual({ ready: true, missing });
  expect(readinessOf([], { running: 0, missing })).toEqual({
    ready: false,
    reason: "agents_missing",
    message: "none of its agents can run: late (no memory)",
    missing,
  });
});
