import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Redis } from "ioredis";
import { findRedisServer } from "../dist/src/redis/binary.js";

/** A redis-server of its own with AOF everysec, which is gone with its folder at the end. */
export async function startRedis() {
  const folder = mkdtempSync(join(tmpdir(), "turnq-bench-"));
  const port = await freePort();
  const flags = ["--port", String(port), "--bind", "127.0.0.1", "--dir", folder];
  const root = fileURLToPath(new URL("..", import.meta.url));
  const binary = findRedisServer({ pathEnv: process.env.PATH, explicit: process.env.TURNQ_REDIS_SERVER, dirs: [root] });
  if (binary === undefined) throw new Error("no redis-server was found: npm run bench sets it up");
  const child = spawn(
    binary,
    [...flags, "--appendonly", "yes", "--appendfsync", "everysec", "--save", "", "--maxmemory-policy", "noeviction"],
    { stdio: "ignore" },
  );
  const clear = () => {
    child.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
  };
  // Also when the benchmark is broken off.
  process.once("exit", clear);
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.once(signal, () => process.exit(130));
  const redis = new Redis(port, "127.0.0.1", { maxRetriesPerRequest: null, retryStrategy: () => 50 });
  redis.on("error", () => undefined);
  await redis.ping();
  return {
    url: `redis://127.0.0.1:${port}`,
    redis,
    /**
     * What the server has used: CPU in ms, memory in bytes; and what it has done: calls of scripts, commands (those inside
     * scripts too), and reads from a socket, of which each may hold many commands.
     */
    figures: async () => {
      const info = await redis.info();
      const number = (name) => Number(new RegExp(`^${name}:([\\d.]+)`, "m").exec(info)?.[1] ?? 0);
      const stats = await redis.info("commandstats");
      const scripts = [...stats.matchAll(/^cmdstat_(?:evalsha|eval):calls=(\d+)/gm)];
      return {
        cpuMs: (number("used_cpu_user") + number("used_cpu_sys")) * 1000,
        memory: number("used_memory"),
        scripts: scripts.reduce((sum, [, calls]) => sum + Number(calls), 0),
        commands: number("total_commands_processed"),
        reads: number("total_reads_processed"),
      };
    },
    clear: () => redis.flushall(),
    stop: async () => {
      redis.disconnect();
      const gone = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGKILL");
      await gone;
      clear();
    },
  };
}

async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}
