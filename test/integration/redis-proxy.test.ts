import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import type { Redis } from "ioredis";
import { connect, whenReady } from "../../src/redis/connection.ts";
import { commandOf, defineScripts } from "../../src/ledger/scripts.ts";
import { labelOf, openRedisProxy, type RedisProxy } from "../redis-proxy.ts";
import { throwAwayRedis, type ThrowAwayRedis } from "../redis.ts";
import { until } from "./queue/scene.ts";

let server: ThrowAwayRedis;
let proxy: RedisProxy;
let redis: Redis;
beforeAll(async () => {
  server = await throwAwayRedis();
});
afterAll(() => server.stop());
beforeEach(async () => {
  proxy = await openRedisProxy(server.port);
  redis = connect(proxy.url, "worker");
  await whenReady(redis, 5000);
  await redis.flushall();
});
afterEach(async () => {
  redis.disconnect();
  await proxy.close();
});

test("commands and replies of any size go through, and are seen by name", async () => {
  const seen: string[] = [];
  const end = proxy.onCommand((command) => seen.push(labelOf(command)));
  defineScripts(redis);
  const big = "x".repeat(3_000_000);
  await redis.set("big", big);
  expect(await redis.get("big")).toBe(big);
  const replies = await redis.pipeline().incr("n").get("big").hgetall("none").mget("big", "n").time().exec();
  expect(replies?.slice(0, 4)).toEqual([
    [null, 1],
    [null, big],
    [null, {}],
    [null, [big, "1"]],
  ]);
  await (Reflect.get(redis, commandOf("wake")) as (...args: unknown[]) => Promise<unknown>).call(
    redis,
    "{turnq:l}",
    "s",
  );
  expect(seen).toEqual(["set", "get", "incr", "get", "hgetall", "mget", "time", "turnq_wake"]);
  end();
});

test("messages go through on a connection that listens", async () => {
  const listener = connect(proxy.url, "worker");
  const heard: string[] = [];
  listener.on("message", (_, text: string) => heard.push(text));
  await listener.subscribe("c");
  for (const text of ["a", "b"]) await redis.publish("c", text);
  await until(() => heard.length === 2);
  expect(heard).toEqual(["a", "b"]);
  listener.disconnect();
});

test("a reply that is cut was executed, replies before it arrive, and the client sends again", async () => {
  const cut = proxy.cutReply(({ name, args }) => name === "incr" && args[0] === "b");
  const replies = await Promise.all([redis.incr("a"), redis.incr("b"), redis.incr("c")]);
  await cut;
  expect(replies[0]).toBe(1);
  expect(replies[1]).toBe(2);
  expect(await redis.mget("a", "b")).toEqual(["1", "2"]);
});

test("a cut inside a MULTI takes the reply of its EXEC", async () => {
  const producer = connect(proxy.url, "producer");
  await whenReady(producer, 5000);
  const cut = proxy.cutReply(({ name, inMulti }) => name === "incr" && inMulti);
  await expect(producer.multi().set("x", 1).incr("y").exec()).rejects.toThrow();
  await cut;
  await until(async () => (await redis.get("y")) !== null);
  producer.disconnect();
});

test("connections are dropped, refused and held", async () => {
  await redis.set("k", "v");
  proxy.cut();
  expect(await redis.get("k")).toBe("v");
  proxy.refuse(true);
  await until(() => redis.status !== "ready");
  const waiting = redis.get("k");
  expect(proxy.connections).toBe(0);
  proxy.refuse(false);
  expect(await waiting).toBe("v");
  proxy.hold(true);
  let answered = false;
  const held = redis.get("k").then((value) => ((answered = true), value));
  const direct = connect(server.url, "worker");
  for (let i = 0; i < 20; i++) await direct.ping();
  expect(answered).toBe(false);
  proxy.hold(false);
  expect(await held).toBe("v");
  direct.disconnect();
});
