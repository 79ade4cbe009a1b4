import { mkdtemp, rm } from "node:fs/promises";
import { accessSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { findRedisServer } from "../src/redis/binary.ts";
import { startRedisServer } from "../src/redis/server.ts";
import type { RedisServer, RedisServerOptions } from "../src/redis/server.ts";
import { sourceDigest } from "../scripts/digest.mjs";

/** The redis-server that the tests use: the set-up sees to it that there is one. */
export function redisBinary(): string {
  const binary = findRedisServer({ pathEnv: process.env.PATH, dirs: [process.cwd()] });
  if (binary === undefined) throw new Error("no redis-server: run `npm test`, which fetches one");
  return binary;
}

/** The keeper's program: the built one where it is up to date, since it starts four times as fast. */
export function keeperEntry(): string {
  const root = process.cwd();
  try {
    const built = readFileSync(join(root, "dist/.digest"), "utf8") === sourceDigest(root);
    if (built) return join(root, "dist/workers/redis-keeper.js");
  } catch {
    // Not built.
  }
  return join(root, "workers/redis-keeper.ts");
}

export interface ThrowAwayRedis extends RedisServer {
  /** Its folder, which `stop` removes. */
  readonly dir: string;
}

/**
 * A redis-server on a temporary folder. It dies with the test process, also when that is killed (on Linux).
 * With TURNQ_TEST_CLUSTER=1 (`npm run test:cluster`) it is a cluster of three, whose `url` says so.
 */
export async function throwAwayRedis(options: Partial<RedisServerOptions> = {}): Promise<ThrowAwayRedis> {
  if (process.env.TURNQ_TEST_CLUSTER !== "1") return throwAwaySingle(options);
  const { throwAwayCluster } = await import("./cluster.ts");
  const { url, nodes, stop } = await throwAwayCluster(options);
  const [first] = nodes;
  if (first === undefined) throw new Error("a cluster without nodes");
  return { ...first, url, stop };
}

/** One redis-server, whatever the tests run on. */
export async function throwAwaySingle(options: Partial<RedisServerOptions> = {}): Promise<ThrowAwayRedis> {
  const dir = options.dir ?? (await mkdtemp(join(tmpdir(), "turnq-test-redis-")));
  const binary = redisBinary();
  const server = await startRedisServer({ binary, wrapper: dieWithParent(), ...options, dir });
  const stop = async (): Promise<void> => {
    await server.stop();
    await rm(dir, { recursive: true, force: true });
  };
  return { ...server, dir, stop };
}

/** What is put before a program so that the kernel kills it with this process, however that ends (on Linux). */
export function dieWithParent(): string[] {
  if (process.platform !== "linux") return [];
  const folder = (process.env.PATH ?? "").split(delimiter).find((candidate) => {
    try {
      accessSync(join(candidate, "setpriv"));
      return true;
    } catch {
      return false;
    }
  });
  return folder === undefined ? [] : [join(folder, "setpriv"), "--pdeathsig", "KILL"];
}
