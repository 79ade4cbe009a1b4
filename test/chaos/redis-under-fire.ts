import type { Redis } from "ioredis";
import { connect, whenReady } from "../../src/redis/connection.ts";
import { startRedisServer, type RedisServer } from "../../src/redis/server.ts";
import { dieWithParent, redisBinary } from "../redis.ts";

/** A redis-server with AOF always that is killed and started again on its folder and port. */
export class RedisUnderFire {
  readonly dir: string;
  readonly port: number;
  /** A connection of the harness's own, past every proxy; its calls wait while Redis is away. */
  readonly direct: Redis;
  #server: RedisServer;
  #restarting: Promise<void> = Promise.resolve();
  kills = 0;

  private constructor(dir: string, server: RedisServer, direct: Redis) {
    this.dir = dir;
    this.port = server.port;
    this.#server = server;
    this.direct = direct;
  }

  static async start(dir: string): Promise<RedisUnderFire> {
    const server = await serverOn(dir);
    const direct = connect(server.url, "worker", { name: "chaos" });
    await whenReady(direct, 10_000);
    return new RedisUnderFire(dir, server, direct);
  }

  /** SIGKILL, and a new server after so long; one such outage at a time. */
  killFor(ms: number): Promise<void> {
    this.#restarting = this.#restarting.then(async () => {
      process.kill(this.#server.pid, "SIGKILL");
      this.kills += 1;
      await this.#server.exited;
      await new Promise((resolve) => setTimeout(resolve, ms));
      this.#server = await serverOn(this.dir, this.port);
    });
    return this.#restarting;
  }

  /** Takes nothing more that needs memory, for so long. */
  async fullFor(ms: number): Promise<void> {
    await this.direct.config("SET", "maxmemory", "1");
    await new Promise((resolve) => setTimeout(resolve, ms));
    // One that was killed meanwhile has forgotten it.
    await this.direct.config("SET", "maxmemory", "0");
  }

  async stop(): Promise<void> {
    await this.#restarting;
    this.direct.disconnect();
    await this.#server.stop();
  }
}

function serverOn(dir: string, port?: number): Promise<RedisServer> {
  return startRedisServer({
    binary: redisBinary(),
    dir,
    port,
    appendfsync: "always",
    wrapper: dieWithParent(),
    waitMs: 60_000,
  });
}
