import { Cluster, Redis } from "ioredis";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { openTurnq } from "../../src/app.ts";
import { defineAgent } from "../../src/agent/define-agent.ts";
import { laneTag } from "../../src/ledger/keys.ts";
import { connect, whenReady } from "../../src/redis/connection.ts";
import { nodeOf, throwAwayCluster, type ThrowAwayCluster } from "../cluster.ts";
import { eventsOf, Gate, QUICK, Scene, until, type TestWorker } from "./queue/scene.ts";

let cluster: ThrowAwayCluster;
let scene: Scene;
/** One lane on each node. */
let lanes: readonly string[];

beforeAll(async () => {
  cluster = await throwAwayCluster({ appendfsync: "always" });
  scene = await Scene.open(cluster.url);
  lanes = await oneLaneEach();
});
// Lanes are shared: a worker that does not know a turn's agent would only hand it back.
const workers: TestWorker[] = [];
afterEach(async () => {
  for (const worker of workers.splice(0)) await worker.close();
});
afterAll(async () => {
  await scene?.close();
  await cluster?.stop();
});

async function oneLaneEach(): Promise<string[]> {
  const found = new Map<number, string>();
  for (let i = 0; found.size < cluster.nodes.length; i++) {
    const node = await nodeOf(scene.redis, `lane${i}`);
    if (!found.has(node)) found.set(node, `lane${i}`);
  }
  return [0, 1, 2].flatMap((node) => found.get(node) ?? []);
}

async function work(...args: Parameters<Scene["worker"]>): Promise<void> {
  workers.push(await scene.worker(...args));
}

function textOf(input: unknown): string {
  return typeof input === "string" ? input : "parts";
}

function lane(node: number): string {
  return lanes[node] ?? "";
}

test("A13: a batch over three lanes on three nodes settles, is counted, listed and kept in its slots", async () => {
  const agents = lanes.map((name, i) =>
    defineAgent(`agent${i}`, ({ input }) => `got ${textOf(input)}`, { lane: name }),
  );
  await work(agents, { concurrency: 9 });
  const samples = Array.from({ length: 8 }, (_, i) => ({ input: `q${i}`, id: `s${i}` }));
  const batch = await scene.turnq.submitMany(samples, { batch: "b", agents: agents.map(({ name }) => name) });
  const outcomes: string[] = [];
  for await (const result of batch.results({ follow: true })) outcomes.push(result.status);
  expect(outcomes).toEqual(Array.from({ length: 24 }, () => "completed"));

  const listed: string[] = [];
  for await (const { lane: of } of scene.turnq.turns.list({ batch: "b" })) listed.push(of);
  expect(listed.toSorted()).toEqual(lanes.flatMap((name) => Array.from({ length: 8 }, () => name)).toSorted());
  for (const [i, node] of cluster.nodes.entries()) {
    const direct = new Redis(node.port);
    expect(await direct.exists(`${laneTag(lane(i))}/bat:b`)).toBe(1);
    direct.disconnect();
    await scene.check(lane(i));
  }
});

test("A13: sessions, events, cancel and retry, each on a lane of another node", async () => {
  const held = new Gate();
  const talk = defineAgent("talk", ({ input, history }) => `${textOf(input)} after ${history.length}`, {
    lane: lane(0),
  });
  const slow = defineAgent(
    "slow",
    async ({ signal, emit }) => {
      emit.text("begun");
      held.open();
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      return "stopped";
    },
    { lane: lane(1) },
  );
  let falls = 1;
  const shaky = defineAgent(
    "shaky",
    () => {
      if (falls-- > 0) throw new Error("once");
      return "well";
    },
    { lane: lane(2) },
  );
  await work([talk, slow, shaky]);
  await Promise.all([
    (async () => {
      const [first, second] = [
        await scene.turnq.submit({ agent: "talk", input: "a", session: "s" }),
        await scene.turnq.submit({ agent: "talk", input: "b", session: "s" }),
      ];
      expect((await first.result({ waitMs: 20_000 })).output).toBe("a after 0");
      expect((await second.result({ waitMs: 20_000 })).output).toBe("b after 2");
      await expect(
        scene.turnq.submit({ agent: "talk", input: "c", session: "s", lane: lane(1) }),
      ).rejects.toMatchObject({ code: "session_lane" });
    })(),
    (async () => {
      const turn = await scene.turnq.submit({ agent: "slow", input: "x" });
      await held.opened;
      await turn.cancel({ reason: "enough" });
      expect((await turn.result({ waitMs: 20_000 })).status).toBe("cancelled");
      expect((await eventsOf(turn)).map(({ type }) => type)).toContain("turn_completed");
    })(),
    (async () => {
      const turn = await scene.turnq.submit({ agent: "shaky", input: "x", retry: { maxAttempts: 1 } });
      expect((await turn.result({ waitMs: 20_000 })).status).toBe("crashed");
      await scene.told(lane(2), turn.id);
      await scene.turnq.retry(turn);
      const again = await until(async () => {
        const result = await (await scene.turnq.turn(turn.id)).result({ waitMs: 20_000 });
        return result.generation === 2 ? result : undefined;
      });
      expect(again).toMatchObject({ status: "completed", output: "well" });
    })(),
  ]);
  for (const name of lanes) await scene.check(name);
});

test("A13: retention works off the lanes of all nodes", async () => {
  const quick = lanes.map((name, i) => defineAgent(`brief${i}`, () => "x", { lane: name }));
  await work(quick, { retention: { maxAgeMs: 1, maxSettled: 0 }, upkeepEveryMs: 50, leases: QUICK });
  const turns = await Promise.all(
    quick.map(({ name }, i) => scene.turnq.submit({ agent: name, input: "x", id: `old${i}` })),
  );
  const gone = await Promise.all(
    turns.map((turn) =>
      until(async () => {
        const found = await scene.turnq.turn(turn.id).catch((error: unknown) => error);
        return Reflect.get(Object(found), "code") === "not_found";
      }, `the end of ${turn.id}`),
    ),
  );
  expect(gone).toEqual(turns.map(() => true));
  for (const name of lanes) await scene.check(name);
});

test("a Cluster that was given is copied; one node alone is refused with what to write", async () => {
  const [first] = cluster.nodes;
  const given = new Cluster([{ host: "127.0.0.1", port: first?.port ?? 0 }]);
  const turnq = await openTurnq({ redis: given });
  expect((await turnq.lanes.list()).length).toBeGreaterThan(0);
  await turnq.close();
  expect(await given.ping()).toBe("PONG");
  given.disconnect();

  await expect(openTurnq({ redis: `redis://127.0.0.1:${first?.port}` })).rejects.toMatchObject({
    code: "config",
    hint: expect.stringContaining(`redis+cluster://127.0.0.1:${first?.port}`),
  });
});

test("a cluster that is not there is unreachable in time", async () => {
  const nowhere = connect("redis+cluster://127.0.0.1:1,127.0.0.1:2", "producer");
  await expect(whenReady(nowhere, 500)).rejects.toMatchObject({
    code: "redis_unreachable",
    message: expect.stringContaining("redis+cluster://127.0.0.1:1,127.0.0.1:2"),
  });
  nowhere.disconnect();
});

test("A11: a call that failed for want of an answer is not sent again when the connection to its node breaks", async () => {
  const redis = connect(cluster.url, "producer", { commandTimeoutMs: 2000 });
  try {
    await whenReady(redis, 10_000);
    const node = cluster.nodes[await nodeOf(redis, lane(0))];
    const key = `${laneTag(lane(0))}:count`;
    const direct = new Redis(node?.url ?? "");
    try {
      // What writes waits, and its connections can be closed.
      await direct.call("client", "pause", "60000", "write");
      const calls = [redis.incr(key), redis.multi().incr(key).incr(key).exec()];
      await Promise.all(calls.map((call) => expect(call).rejects.toThrow("Command timed out")));
      // What is on its way when the connection breaks is sent again, after what might have been sent before it.
      const underway = redis.set(`${key}:underway`, "1");
      await direct.call("client", "kill", "type", "normal", "skipme", "yes");
      await direct.call("client", "unpause");
      await underway;
      expect(await direct.get(key)).toBeNull();
    } finally {
      direct.disconnect();
    }
  } finally {
    redis.disconnect();
  }
});
