import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openBoard, type Board } from "../../../examples/bull-board/board.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { scriptedAgent } from "../../../src/agents/scripted/scripted-agent.ts";
import { throwAwayRedis, type ThrowAwayRedis } from "../../redis.ts";
import { Scene, until } from "../queue/scene.ts";

const LONG = "long ".repeat(20_000);

interface ShownQueue {
  readonly name: string;
  readonly readOnlyMode: boolean;
  readonly counts: Readonly<Record<string, number>>;
  readonly jobs: readonly Readonly<Record<string, unknown>>[];
}

let redis: ThrowAwayRedis;
let scene: Scene;
let board: Board;

beforeAll(async () => {
  redis = await throwAwayRedis({ appendfsync: "no" });
  scene = await Scene.open(redis.url);
  board = openBoard({ redisUrl: redis.url });
  const talks = defineAgent("talks", ({ emit }) => {
    emit.usage({ inputTokens: 5, outputTokens: 2 });
    return Promise.resolve(LONG);
  });
  await scene.worker([talks, scriptedAgent("falls", { script: [{ say: "half" }, { crash: "boom" }] })]);
  const said = await scene.turnq.submit({
    agent: "talks",
    input: LONG,
    id: "t:1",
    session: "u42",
    labels: { of: "x" },
  });
  const fell = await scene.turnq.submit({ agent: "falls", input: "fall", id: "t2", retry: { maxAttempts: 1 } });
  await Promise.all([said.result({ waitMs: 20_000 }), fell.result({ waitMs: 20_000 })]);
  await Promise.all([scene.told("talks", "t:1"), scene.told("falls", "t2")]);
});
afterAll(async () => {
  await board.close();
  await scene.close();
  await redis.stop();
});

function get(path: string, headers: Record<string, string> = {}, on = board): Response | Promise<Response> {
  return on.app.request(path, { headers: { host: "localhost:3002", ...headers } });
}

async function queuesOf(status = "latest", lane = ""): Promise<ShownQueue[]> {
  const answer = await get(`/api/queues?activeQueue=${lane}&status=${status}&page=1&jobsPerPage=50`);
  expect(answer.status).toBe(200);
  const { queues } = (await answer.json()) as { readonly queues: readonly ShownQueue[] };
  return [...queues];
}

test("the board finds every lane of the store, also one that came later, and is read-only", async () => {
  expect((await queuesOf()).map(({ name, readOnlyMode }) => [name, readOnlyMode])).toEqual([
    ["falls", true],
    ["talks", true],
  ]);
  await scene.worker([defineAgent("later", () => Promise.resolve("ok"))]);
  await (await scene.turnq.submit({ agent: "later", input: "x" })).result({ waitMs: 20_000 });
  const later = await until(async () => (await queuesOf()).find(({ name }) => name === "later"), "the new lane");
  expect(later.counts["completed"]).toBe(1);
});

test("B01: a list shows what a turn is, how it ended and what it cost, and stays small", async () => {
  const answer = await get("/api/queues?activeQueue=talks&status=completed&page=1&jobsPerPage=50");
  const body = await answer.text();
  expect(body.length).toBeLessThan(10_000);
  const { queues } = JSON.parse(body) as { readonly queues: readonly ShownQueue[] };
  const [job] = queues.find(({ name }) => name === "talks")?.jobs ?? [];
  expect(job).toMatchObject({
    id: "t+1",
    name: "talks",
    data: { turn: "t:1", agent: "talks", session: "u42", labels: { of: "x" }, crashed: [] },
    returnValue: {
      status: "completed",
      ok: true,
      usage: { inputTokens: 5, outputTokens: 2 },
      attempts: ["completed"],
    },
  });
  const [failed] = (await queuesOf("failed", "falls")).find(({ name }) => name === "falls")?.jobs ?? [];
  expect(failed).toMatchObject({
    failedReason: "boom",
    data: { crashed: [{ attempt: 1, status: "crashed", crashReason: "boom" }] },
    returnValue: { status: "crashed", ok: false, failure: "agent_crash" },
  });
});

test("B07: another name in the Host header is refused", async () => {
  for (const host of ["evil.example", "evil.example:3002", "localhost.evil.example", ""])
    expect((await get("/api/queues", { host })).status).toBe(403);
  for (const host of ["localhost", "127.0.0.1:3002", "[::1]:3002"])
    expect((await get("/api/queues", { host })).status).toBe(200);
});

test("nothing can be changed through the board", async () => {
  const state = async (): Promise<unknown> => {
    const keys = (await scene.redis.keys("{turnq:talks}*")).toSorted();
    return [
      keys,
      await scene.redis.hgetall("{turnq:talks}:talks:meta"),
      await scene.redis.hgetall("{turnq:talks}:talks:t+1"),
    ];
  };
  const before = await state();
  for (const [method, path] of [
    ["PUT", "/api/queues/talks/t+1/retry"],
    ["PUT", "/api/queues/talks/t+1/clean"],
    ["PUT", "/api/queues/talks/pause"],
    ["PUT", "/api/queues/talks/obliterate"],
    ["POST", "/api/queues/talks/add"],
    ["PATCH", "/api/queues/talks/t+1/update-data"],
  ] as const) {
    const answer = await board.app.request(path, { method, headers: { host: "localhost" }, body: "{}" });
    expect([path, answer.status]).toEqual([path, 405]);
  }
  expect(await state()).toEqual(before);
});

test("looking does not set the queue's options anew", async () => {
  await queuesOf();
  expect(await scene.redis.hget("{turnq:talks}:talks:meta", "opts.maxLenEvents")).toBe("1000");
});

test("B10: the board works under a path of its own, with and without a slash at its end", async () => {
  const under = openBoard({ redisUrl: redis.url, basePath: "/a/board" });
  try {
    for (const path of ["/a/board", "/a/board/"]) {
      const page = await get(path, {}, under);
      expect(page.status).toBe(200);
      const html = await page.text();
      expect(html).toContain("/a/board");
      const script = /src="([^"]+\.js)"/.exec(html)?.[1] ?? "";
      const asset = new URL(script, `http://localhost${/base href="([^"]+)"/.exec(html)?.[1] ?? path}`);
      expect((await get(asset.pathname, {}, under)).status).toBe(200);
    }
    expect((await get("/a/board/api/queues", {}, under)).status).toBe(200);
  } finally {
    await under.close();
  }
});

test("examples/bull-board/server.ts serves the board on loopback, and ends at SIGTERM", async () => {
  const jiti = join(dirname(createRequire(import.meta.url).resolve("jiti/package.json")), "lib/jiti-cli.mjs");
  const { PATH = "", HOME = "" } = process.env;
  const child = spawn(process.execPath, [jiti, "examples/bull-board/server.ts"], {
    env: { PATH, HOME, REDIS_URL: redis.url, PORT: "0" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  try {
    const { value: url } = (await createInterface(child.stdout)[Symbol.asyncIterator]().next()) as { value: string };
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    const page = await fetch(url);
    expect(page.status).toBe(200);
    expect(await page.text()).toContain("<title>turnq");
    const answer = await fetch(`${url}/api/queues?activeQueue=talks&status=completed&page=1&jobsPerPage=10`);
    expect(await answer.json()).toMatchObject({ queues: [{ name: "falls" }, { name: "later" }, { name: "talks" }] });
  } finally {
    child.kill("SIGTERM");
    expect(await ended).toBe(0);
  }
});
