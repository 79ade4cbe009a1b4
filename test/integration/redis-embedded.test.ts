import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { addressUrl, readAddress, writeAddress } from "../../src/redis/address.ts";
import { countClients } from "../../src/redis/clients.ts";
import { connect } from "../../src/redis/connection.ts";
import { ensureEmbeddedRedis } from "../../src/redis/embedded.ts";
import type { EmbeddedRedis, EmbeddedRedisOptions } from "../../src/redis/embedded.ts";
import { probe } from "../../src/redis/probe.ts";
import { keeperEntry, redisBinary, throwAwayRedis } from "../redis.ts";

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

/** A folder whose server and keeper are dead, and which is gone, after the test. */
async function folder(name = "redis"): Promise<string> {
  const parent = await mkdtemp(join(tmpdir(), "turnq-test-"));
  const dir = join(parent, name);
  cleanups.push(async () => {
    const address = await readAddress(dir);
    const keepers = await keeperPids(dir);
    for (const pid of keepers) kill(pid);
    if (address !== undefined && (await probe(addressUrl(address))) === "up") {
      const redis = connect(addressUrl(address), "worker");
      const pid = await serverPidOf(redis);
      redis.disconnect();
      kill(pid);
    }
    await rm(parent, { recursive: true, force: true, maxRetries: 10 });
  });
  return dir;
}

async function ensure(dir: string, options: Partial<EmbeddedRedisOptions> = {}): Promise<EmbeddedRedis> {
  const redis = await ensureEmbeddedRedis({
    dir,
    binary: redisBinary(),
    pathEnv: process.env.PATH,
    keeperEntry: keeperEntry(),
    ...options,
  });
  cleanups.push(() => redis.close());
  return redis;
}

function open(url: string): ReturnType<typeof connect> {
  const redis = connect(url, "worker");
  cleanups.push(() => redis.disconnect());
  return redis;
}

async function serverPidOf(redis: ReturnType<typeof connect>): Promise<number> {
  return Number(/process_id:(\d+)/.exec(await redis.info("server"))?.[1]);
}

/** Keepers say who they are in their log. */
async function keeperPids(dir: string): Promise<number[]> {
  const log = await readFile(join(dir, "keeper.log"), "utf8").catch(() => "");
  const pids = [...log.matchAll(/keeper (\d+):/g)].map((match) => Number(match[1]));
  return [...new Set(pids)].filter(isAlive);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

function kill(pid: number): void {
  if (pid > 0 && isAlive(pid)) process.kill(pid, "SIGKILL");
}

const soon = { timeout: 20_000, interval: 20 };

test("the first starts a durable server, the next adopt it", async () => {
  const dir = await folder();
  const first = await ensure(dir);
  const second = await ensure(dir);
  expect(first.adopted).toBe(false);
  expect(second).toMatchObject({ adopted: true, url: first.url, pid: first.pid });
  expect((await stat(dir)).mode & 0o777).toBe(0o700);
  expect((await stat(join(dir, "address.json"))).mode & 0o777).toBe(0o600);
  expect((await stat(join(dir, "keeper.log"))).mode & 0o777).toBe(0o600);
  const redis = open(first.url);
  expect(await redis.config("GET", "appendfsync")).toEqual(["appendfsync", "always"]);
  expect(await probe(`redis://127.0.0.1:${first.port}`)).toBe("refused");
  await vi.waitFor(async () => expect((await countClients(redis)).keepers).toBe(1), soon);
});

test("several that start at once get one server and one keeper", async () => {
  const dir = await folder();
  const all = await Promise.all(Array.from({ length: 6 }, () => ensure(dir)));
  expect(new Set(all.map((one) => one.pid)).size).toBe(1);
  expect(new Set(all.map((one) => one.url)).size).toBe(1);
  const redis = open(all[0]?.url ?? "");
  await vi.waitFor(async () => expect((await countClients(redis)).keepers).toBe(1), soon);
  await vi.waitFor(async () => expect(await keeperPids(dir)).toHaveLength(1), soon);
});

test("the server ends after its last user, and its data are there the next time", async () => {
  const dir = await folder();
  const first = await ensure(dir, { idleMs: 200 });
  const second = await ensure(dir);
  const redis = open(first.url);
  await redis.set("kept", "yes");
  first.close();
  second.close();
  // A connection without a handle is a user too.
  await expect(vi.waitFor(() => expect(isAlive(first.pid)).toBe(false), { timeout: 1_000 })).rejects.toThrow();
  redis.disconnect();
  await vi.waitFor(() => expect(isAlive(first.pid)).toBe(false), soon);
  await vi.waitFor(async () => expect(await keeperPids(dir)).toEqual([]), soon);
  expect(await readAddress(dir)).toBeUndefined();

  const again = await ensure(dir);
  expect(again.adopted).toBe(false);
  expect(await open(again.url).get("kept")).toBe("yes");
});

test("a server that is killed comes back on its port, with its data", async () => {
  const dir = await folder();
  const embedded = await ensure(dir);
  const redis = open(embedded.url);
  await redis.set("kept", "yes");
  await vi.waitFor(async () => expect((await countClients(redis)).keepers).toBe(1), soon);
  process.kill(embedded.pid, "SIGKILL");
  await vi.waitFor(async () => {
    expect(await redis.get("kept")).toBe("yes");
    expect(await serverPidOf(redis)).not.toBe(embedded.pid);
  }, soon);
});

test("when the keeper is killed the next starter adopts the server and gives it a keeper", async () => {
  const dir = await folder();
  const first = await ensure(dir, { idleMs: 200 });
  const redis = open(first.url);
  await vi.waitFor(async () => expect((await countClients(redis)).keepers).toBe(1), soon);
  const [keeper] = await keeperPids(dir);
  process.kill(keeper ?? 0, "SIGKILL");
  await vi.waitFor(async () => expect((await countClients(redis)).keepers).toBe(0), soon);

  const second = await ensure(dir, { idleMs: 200 });
  expect(second).toMatchObject({ adopted: true, pid: first.pid });
  await vi.waitFor(async () => expect((await countClients(redis)).keepers).toBe(1), soon);
  for (const one of [first, second]) one.close();
  redis.disconnect();
  await vi.waitFor(() => expect(isAlive(first.pid)).toBe(false), soon);
});

test("a keeper that was killed while it let nobody in locks nobody out", async () => {
  const dir = await folder();
  const first = await ensure(dir);
  const redis = open(first.url);
  await vi.waitFor(async () => expect((await countClients(redis)).keepers).toBe(1), soon);
  const [keeper] = await keeperPids(dir);
  process.kill(keeper ?? 0, "SIGKILL");
  await redis.config("SET", "maxclients", 1);
  first.close();
  redis.disconnect();
  const second = await ensure(dir);
  expect(second.pid).toBe(first.pid);
  await vi.waitFor(async () => expect((await countClients(open(second.url))).keepers).toBe(1), soon);
});

test("when server and keeper are both killed, a live user has them started again on the same port", async () => {
  const dir = await folder();
  const embedded = await ensure(dir);
  const redis = open(embedded.url);
  await redis.set("kept", "yes");
  await vi.waitFor(async () => expect((await countClients(redis)).keepers).toBe(1), soon);
  for (const pid of [...(await keeperPids(dir)), embedded.pid]) process.kill(pid, "SIGKILL");
  await vi.waitFor(async () => {
    expect(await redis.get("kept")).toBe("yes");
    expect(await serverPidOf(redis)).not.toBe(embedded.pid);
    expect((await countClients(redis)).keepers).toBe(1);
  }, soon);
});

test("keeper and server are out of reach of Ctrl-C: each in another session than ours", async () => {
  const dir = await folder();
  const embedded = await ensure(dir);
  await vi.waitFor(async () => expect(await keeperPids(dir)).toHaveLength(1), soon);
  const sessionOf = (pid: number): string =>
    execFileSync("ps", ["-o", "sid=", "-p", String(pid)], { encoding: "utf8" }).trim();
  const [keeper] = await keeperPids(dir);
  const sessions = [process.pid, keeper ?? 0, embedded.pid].map(sessionOf);
  expect(new Set(sessions).size).toBe(3);
});

test("keeper and server get no more of the environment than PATH", async () => {
  vi.stubEnv("TURNQ_TEST_SECRET", "not to be handed on");
  cleanups.push(() => vi.unstubAllEnvs());
  const dir = await folder();
  const embedded = await ensure(dir);
  await vi.waitFor(async () => expect(await keeperPids(dir)).toHaveLength(1), soon);
  const [keeper] = await keeperPids(dir);
  if (process.platform !== "linux") return;
  expect(await readFile(`/proc/${keeper}/environ`, "utf8")).toMatch(/^PATH=[^\0]*\0$/);
  // A redis-server writes its title over its environment: only what is absent can be seen there.
  expect(await readFile(`/proc/${embedded.pid}/environ`, "utf8")).not.toContain("TURNQ_TEST_SECRET");
});

test("a half-written address is no obstacle", async () => {
  const dir = await folder();
  await mkdir(dir, { recursive: true });
  await writeFile(join(dir, "address.json"), '{"v":1,"port":6379,"pass');
  const embedded = await ensure(dir);
  expect(await open(embedded.url).ping()).toBe("PONG");
});

test("an address that now belongs to a stranger's Redis is not adopted, and the stranger is left alone", async () => {
  const stranger = await throwAwayRedis();
  cleanups.push(() => stranger.stop());
  const dir = await folder();
  await mkdir(dir, { recursive: true });
  await writeAddress(dir, { v: 1, port: stranger.port, password: "a-password-of-long-ago" });
  const embedded = await ensure(dir);
  expect(embedded.port).not.toBe(stranger.port);
  expect(await open(stranger.url).ping()).toBe("PONG");
});

test("an address on which something else listens is not adopted", async () => {
  const other = createServer((socket) => {
    socket.on("error", () => undefined).resume();
    socket.end("HTTP/1.1 400 Bad Request\r\n\r\n");
  });
  await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
  cleanups.push(() => new Promise((resolve) => other.close(resolve)));
  const address = other.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  const dir = await folder();
  await mkdir(dir, { recursive: true });
  await writeAddress(dir, { v: 1, port, password: "a-password-of-long-ago" });
  const embedded = await ensure(dir);
  expect(embedded.port).not.toBe(port);
});

test("a folder path of more than 107 bytes works", async () => {
  const dir = await folder(`${"long ".repeat(30)}/redis`);
  const embedded = await ensure(dir);
  expect(await open(embedded.url).ping()).toBe("PONG");
});

test("a server whose folder was removed is ended", async () => {
  const dir = await folder();
  const embedded = await ensure(dir);
  await vi.waitFor(async () => expect(await keeperPids(dir)).toHaveLength(1), soon);
  const [keeper] = await keeperPids(dir);
  // The server may write a file while the folder is being taken away.
  await rm(dir, { recursive: true, force: true, maxRetries: 10 });
  await vi.waitFor(() => {
    expect(isAlive(embedded.pid)).toBe(false);
    expect(isAlive(keeper ?? 0)).toBe(false);
  }, soon);
});

test("a server that cannot start is reported with what the keeper said", async () => {
  const dir = await folder();
  const start = ensureEmbeddedRedis({ dir, binary: "/nonexistent/redis-server", pathEnv: process.env.PATH });
  await expect(start).rejects.toMatchObject({ code: "redis_unreachable" });
  await expect(start).rejects.toThrow(/\/nonexistent\/redis-server/);
});

test("a folder that cannot be used is a config error with a hint", async () => {
  const dir = await folder();
  await mkdir(join(dir, ".."), { recursive: true });
  await writeFile(dir, "a file");
  const start = ensureEmbeddedRedis({ dir, binary: redisBinary(), pathEnv: process.env.PATH });
  await expect(start).rejects.toMatchObject({ code: "config" });
});

test("users that come and go while the server is being ended always find one, with all data", async () => {
  const seed = Number(process.env.TEST_SEED ?? Date.now() % 100_000);
  console.log(`seed ${seed}`);
  let state = seed;
  const random = (): number => (state = (state * 48_271 + 11) % 2_147_483_647) / 2_147_483_647;
  const dir = await folder();
  for (let round = 1; round <= 8; round++) {
    const users = await Promise.all([ensure(dir, { idleMs: 100 }), ensure(dir, { idleMs: 100 })]);
    const redis = open(users[0]?.url ?? "");
    expect(await redis.incr("rounds")).toBe(round);
    redis.disconnect();
    for (const user of users) user.close();
    await new Promise((resolve) => setTimeout(resolve, random() * 600));
  }
}, 120_000);
