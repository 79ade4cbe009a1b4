import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { connect, whenReady } from "../../../src/redis/connection.ts";
import { probe } from "../../../src/redis/probe.ts";
import { RedisServerStartError, startRedisServer } from "../../../src/redis/server.ts";
import { redisBinary, throwAwayRedis } from "../../redis.ts";

const cleanups: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

async function folder(name = "redis"): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), "turnq-test-"));
  cleanups.push(() => rm(dir, { recursive: true, force: true }));
  return join(dir, name);
}

test("a server answers, keeps its data over a restart, and ends", async () => {
  const dir = await folder();
  const binary = redisBinary();
  const first = await startRedisServer({ binary, dir });
  const redis = connect(first.url, "worker");
  await redis.set("kept", "1");
  redis.disconnect();
  process.kill(first.pid, "SIGKILL");
  expect(await first.exited).toEqual({ code: null, signal: "SIGKILL" });
  await first.stop();

  const second = await startRedisServer({ binary, dir, port: first.port });
  cleanups.push(() => second.stop());
  const again = connect(second.url, "worker");
  expect(await again.get("kept")).toBe("1");
  again.disconnect();
  await second.stop();
  await second.stop();
  expect(await probe(second.url)).toBe("down");
});

test("it is durable by default, listens on loopback only and never evicts", async () => {
  const server = await throwAwayRedis();
  cleanups.push(() => server.stop());
  const redis = connect(server.url, "worker");
  cleanups.push(async () => redis.disconnect());
  const setting = async (name: string): Promise<unknown> => ((await redis.config("GET", name)) as unknown[])[1];
  expect(await setting("appendonly")).toBe("yes");
  expect(await setting("appendfsync")).toBe("always");
  expect(await setting("maxmemory-policy")).toBe("noeviction");
  expect(await setting("save")).toBe("");
  expect(await setting("bind")).toBe("127.0.0.1");
});

test("a password is asked for and is not on the command line", async () => {
  const server = await throwAwayRedis({ password: "s3cret-of-this-test" });
  cleanups.push(() => server.stop());
  expect(await probe(server.url)).toBe("up");
  expect(await probe(`redis://127.0.0.1:${server.port}`)).toBe("refused");
  if (process.platform === "linux") {
    const { readFile } = await import("node:fs/promises");
    expect(await readFile(`/proc/${server.pid}/cmdline`, "utf8")).not.toContain("s3cret");
  }
});

test("folders with spaces, quotes, backslashes and other letters work, also over 107 bytes", async () => {
  const dir = await folder(`a "b" \\c 'd' é ${"x".repeat(120)}`);
  const server = await startRedisServer({ binary: redisBinary(), dir });
  cleanups.push(() => server.stop());
  const redis = connect(server.url, "worker");
  cleanups.push(async () => redis.disconnect());
  await redis.set("a", "b");
  expect(existsSync(join(dir, "appendonlydir")) || existsSync(join(dir, "appendonly.aof"))).toBe(true);
});

test("a port that is taken is an error that names the end of the server", async () => {
  const taken = createServer((socket) => socket.destroy());
  await new Promise<void>((resolve) => taken.listen(0, "127.0.0.1", resolve));
  cleanups.push(() => new Promise((resolve) => taken.close(resolve)));
  const address = taken.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  const start = startRedisServer({ binary: redisBinary(), dir: await folder(), port });
  await expect(start).rejects.toBeInstanceOf(RedisServerStartError);
  await expect(start).rejects.toMatchObject({ exitCode: 1 });
});

test("a program that cannot be started is redis_missing", async () => {
  const start = startRedisServer({ binary: "/nonexistent/redis-server", dir: await folder() });
  await expect(start).rejects.toMatchObject({ code: "redis_missing" });
});

test("A11: a producer's call fails at once when the server is gone", async () => {
  const server = await throwAwayRedis();
  const redis = connect(server.url, "producer");
  cleanups.push(async () => redis.disconnect());
  await whenReady(redis, 5_000);
  await server.stop();
  await expect(redis.ping()).rejects.toBeInstanceOf(Error);
});
