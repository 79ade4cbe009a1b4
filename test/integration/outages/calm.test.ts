import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { SILENT, type Log } from "../../../src/telemetry/log.ts";
import { openRedisProxy } from "../../redis-proxy.ts";
import { throwAwayRedis } from "../../redis.ts";
import { Gate, Scene, until } from "../queue/scene.ts";

/** How long a worker is watched, in ms. */
const WATCHED_MS = 4000;

interface Bounds {
  /** Commands that a worker may send in that time: renewals of 1 s, a call each 500 ms, a few fetches. */
  readonly commands: number;
  readonly lines: number;
}

/** Breaks a Redis and answers how it is mended. */
type Break = (scene: Scene, pid: number, proxy: Awaited<ReturnType<typeof openRedisProxy>>) => Promise<() => unknown>;

const WAYS: Readonly<Record<string, readonly [Break, Bounds, readonly string[]]>> = {
  full: [
    async ({ redis }) => {
      await redis.config("SET", "maxmemory", "1");
      return () => redis.config("SET", "maxmemory", "0");
    },
    { commands: 150, lines: 60 },
    ["redis_refused"],
  ],
  // The worker's connections reconnect at READONLY: whether Redis refuses or is away is a matter of the instant.
  replica: [
    async ({ redis }) => {
      await redis.replicaof("127.0.0.1", 1);
      return () => redis.replicaof("NO", "ONE");
    },
    { commands: 200, lines: 100 },
    ["redis_refused", "redis_unreachable"],
  ],
  refused: [
    (_scene, _pid, proxy) => {
      proxy.refuse(true);
      return Promise.resolve(() => proxy.refuse(false));
    },
    { commands: 0, lines: 100 },
    ["redis_unreachable"],
  ],
  held: [
    (_scene, _pid, proxy) => {
      proxy.hold(true);
      return Promise.resolve(() => proxy.hold(false));
    },
    { commands: 0, lines: 60 },
    ["redis_unreachable"],
  ],
  frozen: [
    (_scene, pid) => {
      process.kill(pid, "SIGSTOP");
      return Promise.resolve(() => process.kill(pid, "SIGCONT"));
    },
    { commands: 150, lines: 60 },
    ["redis_unreachable"],
  ],
};

// All at once: what the process uses is the sum of them, and bounded as such.
test.concurrent.for(Object.entries(WAYS))(
  "invariant 10, A55: while Redis is %s a worker neither spins nor floods the log, is not ready, and stores the Result of what ran once",
  async ([name, [breakRedis, bounds, reasons]], { onTestFinished }) => {
    const server = await throwAwayRedis({ appendfsync: "always" });
    const proxy = await openRedisProxy(server.port);
    const scene = await Scene.open(server.url);
    let mend: (() => unknown) | undefined;
    onTestFinished(async () => {
      await mend?.();
      await scene.close();
      await proxy.close();
      await server.stop();
    });
    const through = await Scene.open(proxy.url);
    scene.onClose(() => through.close());
    let lines = 0;
    const count = (): void => void (lines += 1);
    const log: Log = { ...SILENT, debug: count, info: count, warn: count, error: count };
    const done = new Gate();
    let runs = 0;
    const agent = defineAgent("calm", async ({ emit }) => {
      runs += 1;
      emit.usage({ inputTokens: 7 });
      await done.opened;
      return "done";
    });
    const { worker } = await through.worker([agent], { log });
    expect(worker.readiness()).toEqual({ ready: true });
    const turn = await scene.turnq.submit({ agent: "calm", input: "x", id: "t1" });
    // It comes due meanwhile: what fetches it must not ask again and again.
    const later = await scene.turnq.submit({ agent: "calm", input: "z", id: "t3", delayMs: 1500 });
    await until(() => runs === 1);

    mend = await breakRedis(scene, server.pid, proxy);
    await until(() => !worker.readiness().ready, "a worker that is not ready");
    const seen = worker.readiness();
    expect(reasons).toContain(seen.ready ? "" : seen.reason);
    // It ends in the middle of the outage: what it gave is kept until it can be stored.
    done.open();
    let commands = 0;
    const end = proxy.onCommand(() => (commands += 1));
    lines = 0;
    const before = process.cpuUsage();
    await sleep(WATCHED_MS);
    const { user, system } = process.cpuUsage(before);
    end();
    const found = { name, commands, lines, share: (user + system) / 1000 / WATCHED_MS };
    expect(commands, JSON.stringify(found)).toBeLessThanOrEqual(bounds.commands);
    expect(lines, JSON.stringify(found)).toBeLessThanOrEqual(bounds.lines);
    expect(found.share, JSON.stringify(found)).toBeLessThan(0.5);

    await mend();
    mend = undefined;
    expect(await turn.result({ waitMs: 30_000 })).toMatchObject({
      ok: true,
      output: "done",
      usage: { inputTokens: 7 },
      attempts: [{ attempt: 1, status: "completed" }],
    });
    await until(() => worker.readiness().ready, "a ready worker");
    const after = await scene.turnq.submit({ agent: "calm", input: "y", id: "t2" });
    for (const other of [after, later])
      expect(await other.result({ waitMs: 30_000 })).toMatchObject({ ok: true, attempts: [{ attempt: 1 }] });
    expect(runs).toBe(3);
    await scene.told("calm", "t2");
    await scene.check("calm");
  },
);
