import { createServer } from "node:net";
import type { Socket } from "node:net";
import { Redis } from "ioredis";
import { afterEach, expect, test, vi } from "vitest";
import { connect, redisError, redisOptions, whenReady } from "../../../src/redis/connection.ts";
import { startRedisServer } from "../../../src/redis/server.ts";
import { redactUrl } from "../../../src/redis/url.ts";
import { redisBinary, throwAwayRedis } from "../../redis.ts";

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

function opened(redis: Redis): Redis {
  cleanups.push(() => redis.disconnect());
  return redis;
}

/** A port on which nothing listens. */
async function deadPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === "object" && address !== null ? address.port : 0;
}

test.each(["http://127.0.0.1:1", "redis://127.0.0.1:99999", "redis://[::1", undefined, null, 7])(
  "what is no address of a Redis is a wrong config, with no password in it: %s",
  (target) => {
    expect(() => connect(target as never, "producer")).toThrow(expect.objectContaining({ code: "config" }));
  },
);

test("a wait that is longer than a timer takes is none that is over at once", async () => {
  const server = await throwAwayRedis();
  cleanups.push(() => server.stop());
  const redis = opened(connect(server.url, "producer"));
  await whenReady(redis, 3e9);
  expect(redis.status).toBe("ready");
});

test("A11: with Redis down a producer is told so as redis_unreachable, with its address and without its password", async () => {
  const port = await deadPort();
  const redis = opened(connect(`redis://:hidden@127.0.0.1:${port}`, "producer"));
  const ready = whenReady(redis, 200);
  await expect(ready).rejects.toMatchObject({ code: "redis_unreachable" });
  await expect(ready).rejects.toThrow(new RegExp(`127\\.0\\.0\\.1:${port}.*ECONNREFUSED`));
  await expect(ready).rejects.not.toThrow(/hidden/);
  // A call is not kept in memory to be sent some time later.
  const call = redis.set("a", "b").catch((error: unknown) => redisError(error, redis));
  expect(await call).toMatchObject({ code: "redis_unreachable" });
});

test("A11: a server that accepts and never answers is redis_unreachable too", async () => {
  const sockets: Socket[] = [];
  const silent = createServer((socket) => sockets.push(socket));
  await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
  cleanups.push(() => {
    for (const socket of sockets) socket.destroy();
    silent.close();
  });
  const address = silent.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  const redis = opened(connect({ host: "127.0.0.1", port }, "producer"));
  await expect(whenReady(redis, 200)).rejects.toMatchObject({ code: "redis_unreachable" });
});

test("a producer's command that Redis does not answer is given up", async () => {
  const server = await throwAwayRedis();
  cleanups.push(() => server.stop());
  const redis = opened(connect(server.url, "producer", { commandTimeoutMs: 100 }));
  await whenReady(redis, 5_000);
  process.kill(server.pid, "SIGSTOP");
  cleanups.push(() => process.kill(server.pid, "SIGCONT"));
  const call = redis.get("a").catch((error: unknown) => redisError(error, redis));
  expect(await call).toMatchObject({ code: "redis_unreachable" });
});

test("A10: a worker's command waits through an outage and is answered; connection errors go to onError", async () => {
  const first = await throwAwayRedis();
  const onError = vi.fn<(error: Error) => void>();
  const redis = opened(connect(first.url, "worker", { onError, name: "a-worker" }));
  await redis.set("kept", "1");
  expect(await redis.client("GETNAME")).toBe("a-worker");
  process.kill(first.pid, "SIGKILL");
  await first.exited;
  const answer = redis.get("kept");
  await vi.waitFor(() => expect(onError).toHaveBeenCalled());
  const second = await startRedisServer({ binary: redisBinary(), dir: first.dir, port: first.port });
  cleanups.push(() => first.stop());
  cleanups.push(() => second.stop());
  expect(await answer).toBe("1");
});

test("a primary that stays a replica is asked at most every half second, not 40 times a second", () => {
  const { reconnectOnError, retryStrategy } = redisOptions("worker");
  const waits = Array.from({ length: 7 }, () => {
    expect(reconnectOnError?.(new Error("READONLY You can't write against a read only replica."))).toBe(2);
    return retryStrategy?.(1);
  });
  expect(waits).toEqual([50, 100, 200, 400, 500, 500, 500]);
  expect(redisOptions("worker").retryStrategy?.(1)).toBe(50);
});

test("A10: a primary that became a replica is left, and the command is sent again", async () => {
  const options = redisOptions("worker");
  const reconnect = options.reconnectOnError;
  expect(reconnect?.(new Error("READONLY You can't write against a read only replica."))).toBe(2);
  expect(reconnect?.(new Error("LOADING Redis is loading the dataset in memory"))).toBe(2);
  expect(reconnect?.(new Error("WRONGTYPE READONLY is not the first word"))).toBe(false);

  const server = await throwAwayRedis();
  cleanups.push(() => server.stop());
  const redis = opened(connect(server.url, "worker"));
  const admin = opened(connect(server.url, "worker"));
  await admin.replicaof("127.0.0.1", String(await deadPort()));
  const write = redis.set("a", "b");
  let failed = false;
  write.catch(() => (failed = true));
  await vi.waitFor(async () =>
    expect(await admin.info("commandstats")).toMatch(/cmdstat_set:calls=[2-9]|rejected_calls=[2-9]/),
  );
  expect(failed).toBe(false);
  await admin.replicaof("NO", "ONE");
  expect(await write).toBe("OK");
});

test("waits between tries to reconnect never exceed half a second", () => {
  const retry = redisOptions("worker").retryStrategy;
  for (const tries of [1, 2, 5, 20, 1_000_000]) {
    const waitMs = retry?.(tries);
    expect(waitMs).toBeGreaterThan(0);
    expect(waitMs).toBeLessThanOrEqual(500);
  }
});

test("a wrong password is refused at once, not waited for", async () => {
  const server = await throwAwayRedis({ password: "right" });
  cleanups.push(() => server.stop());
  const redis = opened(connect(`redis://:wrong@127.0.0.1:${server.port}`, "producer"));
  await expect(whenReady(redis, 10_000)).rejects.toMatchObject({ code: "redis_refused" });
});

test("a connection that was given is copied: its address and database, not its role", async () => {
  const server = await throwAwayRedis();
  cleanups.push(() => server.stop());
  const theirs = opened(new Redis(server.url, { db: 3, replyMapping: "resp3" }));
  const ours = opened(connect(theirs, "worker"));
  await ours.set("a", "b");
  expect(await theirs.get("a")).toBe("b");
  expect(ours.options.maxRetriesPerRequest).toBeNull();
  expect(await ours.config("GET", "appendonly")).toEqual(["appendonly", "yes"]);
});

test("a keyPrefix is refused: BullMQ's scripts build their keys themselves", () => {
  expect(() => connect({ keyPrefix: "mine:" }, "producer")).toThrow(expect.objectContaining({ code: "config" }));
});

test("an error reply is redis_refused; an error of ours stays what it is", async () => {
  const server = await throwAwayRedis();
  cleanups.push(() => server.stop());
  const redis = opened(connect(server.url, "worker"));
  const wrong = await redis.call("NOSUCH").catch((error: unknown) => redisError(error));
  expect(wrong).toMatchObject({ code: "redis_refused" });
  expect(redisError(wrong)).toBe(wrong);
  expect(redisError(null)).toMatchObject({ code: "redis_unreachable" });
});

test.each([
  ["redis://127.0.0.1:6379", "redis://127.0.0.1:6379"],
  ["redis://:secret@host:1/2", "redis://:***@host:1/2"],
  ["rediss://user:p%40ss@host", "rediss://user:***@host"],
  ["redis://host?password=secret&db=1", "redis://host?password=***&db=1"],
  ["not a url with secret", "redis://(not a URL)"],
])("redactUrl hides passwords: %s", (url, shown) => {
  expect(redactUrl(url)).toBe(shown);
});
