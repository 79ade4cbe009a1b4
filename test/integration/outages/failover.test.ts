import { expect, test } from "vitest";
import { Redis } from "ioredis";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { isTurnqError } from "../../../src/domain/error.ts";
import { labelOf, openRedisProxy } from "../../redis-proxy.ts";
import { throwAwaySingle } from "../../redis.ts";
import { Gate, Scene, until } from "../queue/scene.ts";

/** Asks until it is answered; every refusal on the way must be a clear one. */
async function answered<T extends object>(call: () => Promise<T>): Promise<T> {
  return until(async () => {
    try {
      return await call();
    } catch (error) {
      if (!isTurnqError(error, "redis_refused") && !isTurnqError(error, "redis_unreachable")) throw error;
      return undefined;
    }
  }, "an answer");
}

test.concurrent.for(["killed", "demoted"] as const)(
  "invariants 2, 3 and 10, A10: the primary is %s while turns run, its replica takes over: they end once, with all that they spent",
  async (how, { onTestFinished }) => {
    const first = await throwAwaySingle({ appendfsync: "always" });
    const second = await throwAwaySingle({ settings: { replicaof: `127.0.0.1 ${first.port}` } });
    const proxy = await openRedisProxy(first.port);
    const [one, two] = [new Redis(first.url), new Redis(second.url)];
    for (const direct of [one, two]) direct.on("error", () => undefined);
    const scene = await Scene.open(proxy.url);
    onTestFinished(async () => {
      await scene.close();
      one.disconnect();
      two.disconnect();
      await proxy.close();
      await second.stop();
      await first.stop();
    });
    const gate = new Gate();
    const runs: string[] = [];
    const agent = defineAgent("moved", async ({ text, emit }) => {
      runs.push(text);
      for (const tokens of [2, 3]) {
        await emit.call();
        emit.usage({ inputTokens: tokens });
        await gate.opened;
      }
      return text;
    });
    await scene.worker([agent], { concurrency: 4 });
    const submit = (id: string, session?: string) =>
      scene.turnq.submit({ agent: "moved", input: id, id, ...(session === undefined ? {} : { session }) });
    const handles = [await submit("a"), await submit("b", "s"), await submit("c", "s")];
    await until(() => runs.length === 2, "two that run");
    // What had not reached the replica would be lost, which no client can mend.
    expect(await one.wait(1, 10_000)).toBe(1);

    if (how === "killed") {
      process.kill(first.pid, "SIGKILL");
      await first.exited;
    }
    await two.replicaof("NO", "ONE");
    if (how === "demoted") {
      await one.replicaof("127.0.0.1", second.port);
      // Connections to the old one stay: it says READONLY to what they write.
      await expect(submit("early")).rejects.toMatchObject({
        code: "redis_refused",
        message: expect.stringMatching(/READONLY/),
      });
    } else {
      await expect(submit("early")).rejects.toMatchObject({ code: "redis_unreachable" });
    }
    proxy.retarget(second.port);
    handles.push(await answered(() => submit("d", "s")));
    gate.open();
    const results = await Promise.all(handles.map((handle) => handle.result({ waitMs: 60_000 })));
    for (const result of results)
      expect(result).toMatchObject({ ok: true, usage: { inputTokens: 5 }, attempts: [{ attempt: 1 }] });
    expect(results.map(({ iteration }) => iteration)).toEqual([undefined, 1, 2, 3]);
    expect(runs.toSorted()).toEqual(["a", "b", "c", "d"]);
    for (const handle of handles) await scene.told("moved", handle.id);
    await scene.check("moved");
  },
);

const ERRORS = [
  "LOADING Redis is loading the dataset in memory",
  "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
  "CLUSTERDOWN The cluster is down",
  "TRYAGAIN Multiple keys request during rehashing of slot",
  "MISCONF Errors writing to the AOF file: No space left on device",
  "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
] as const;

test.concurrent("invariants 2, 3 and 10, A10: a Redis that refuses for a while: what ends meanwhile is stored once, and producers are told", async ({
  onTestFinished,
}) => {
  const server = await throwAwaySingle({ appendfsync: "no" });
  const proxy = await openRedisProxy(server.port);
  const scene = await Scene.open(proxy.url);
  onTestFinished(async () => {
    await scene.close();
    await proxy.close();
    await server.stop();
  });
  const runs: string[] = [];
  const gates = new Map(ERRORS.map((error) => [error, new Gate()]));
  const agent = defineAgent("told", async ({ text, emit }) => {
    runs.push(text);
    await emit.call();
    emit.usage({ inputTokens: 7 });
    await gates.get(text as (typeof ERRORS)[number])?.opened;
    return "done";
  });
  await scene.worker([agent], { concurrency: 1 });
  for (const [i, error] of ERRORS.entries()) {
    const turn = await scene.turnq.submit({ agent: "told", input: error, id: `t${i}` });
    await until(() => runs.includes(error), "its start");
    proxy.answer(error, 3, (command) => labelOf(command) === "turnq_settle");
    // A MULTI is sent three times, and a connection that is told to come back later is opened anew in between.
    proxy.answer(error, 3, ({ name }) => name === "multi");
    const next = await answered(() => scene.turnq.submit({ agent: "told", input: "next", id: `n${i}` }));
    gates.get(error)?.open();
    for (const handle of [turn, next])
      expect(await handle.result({ waitMs: 30_000 }), error).toMatchObject({
        ok: true,
        usage: { inputTokens: 7 },
        attempts: [{ attempt: 1 }],
      });
  }
  expect(runs).toHaveLength(2 * ERRORS.length);
  await scene.check("told");
});
