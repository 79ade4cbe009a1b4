import { expect, test } from "vitest";
import { ServedAgents } from "../../../src/queue/served-agents.ts";
import type { WorkerInfo } from "../../../src/queue/worker-registry.ts";

const SINCE = Date.UTC(2030, 0, 2, 3, 4, 5);

function worker(more: Partial<WorkerInfo>): WorkerInfo {
  const none = { agents: [], missing: [], lanes: [], concurrency: 1, running: 0, closing: false, startedAt: 0, at: 0 };
  return { worker: "w", ...none, ...more };
}

/** A list of workers that the test writes, and a clock that it moves. */
function scene() {
  const own = {
    workers: [] as WorkerInfo[],
    nowMs: 0,
    reads: 0,
    here: false,
    list: (): Promise<WorkerInfo[]> => {
      own.reads += 1;
      return Promise.resolve(own.workers);
    },
  };
  const served = new ServedAgents({
    registry: { list: () => own.list() },
    directory: { publishedAt: (agent) => Promise.resolve(agent === "old" ? SINCE : undefined) },
    servedHere: () => own.here,
    monotonicMs: () => own.nowMs,
  });
  return { own, served };
}

test("U01: who is served by nobody is told so, with since when and why where that is known", async () => {
  const { own, served } = scene();
  const lacks = worker({ missing: [{ agent: "lacked", problem: "no memory" }] });
  own.workers = [worker({ agents: ["here"], lanes: ["here"] }), lacks];
  expect(await served.unserved("here", "here")).toBeUndefined();
  expect(await served.unserved("old", "old")).toEqual({
    agent: "old",
    lane: "old",
    sinceAt: SINCE,
    message:
      'no worker that is up runs agent "old": its turns wait for one, the last one was there at 2030-01-02T03:04:05.000Z',
  });
  expect((await served.unserved("lacked", "l"))?.message).toContain("(one that was to run it cannot: no memory)");
  expect((await served.unserved("here", "other"))?.message).toContain('of agent "here" in lane "other"');
});

test("U01: a worker that shuts down serves nobody any more, one of this process does at once", async () => {
  const { own, served } = scene();
  own.workers = [worker({ agents: ["a"], lanes: ["a"], closing: true })];
  expect(await served.unserved("a", "a")).toMatchObject({ agent: "a" });
  own.here = true;
  expect(await served.unserved("a", "a")).toBeUndefined();
  expect(own.reads).toBe(1);
});

test("U01: the list is read once for many submits, and held for no longer than a second", async () => {
  const { own, served } = scene();
  const ask = async () => (await served.unserved("a", "a")) !== undefined;
  expect(await Promise.all(Array.from({ length: 100 }, ask))).toEqual(Array(100).fill(true));
  expect(own.reads).toBe(1);
  own.workers = [worker({ agents: ["a"], lanes: ["a"] })];
  own.nowMs = 999;
  expect([await ask(), own.reads]).toEqual([true, 1]);
  own.nowMs = 1000;
  expect([await ask(), own.reads]).toEqual([false, 2]);
  own.workers = [];
  own.nowMs = 1999;
  expect([await ask(), own.reads]).toEqual([false, 2]);
  own.nowMs = 2000;
  expect([await ask(), own.reads]).toEqual([true, 3]);
});

test("U01: where the list cannot be read nobody is warned, and it is asked for again", async () => {
  const { own, served } = scene();
  const list = own.list;
  own.list = () => Promise.reject(new Error("Redis is away"));
  expect(await served.unserved("a", "a")).toBeUndefined();
  own.list = list;
  expect(await served.unserved("a", "a")).toMatchObject({ agent: "a" });
});
