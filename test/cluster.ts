import { Redis } from "ioredis";
import { setTimeout as sleep } from "node:timers/promises";
import { laneTag } from "../src/ledger/keys.ts";
import { isCluster, primaries } from "../src/redis/cluster.ts";
import { freePort, type RedisServerOptions } from "../src/redis/server.ts";
import { throwAwaySingle, type ThrowAwayRedis } from "./redis.ts";

const NODES = 3;
const SLOTS = 16_384;
const PATIENCE_MS = 30_000;

export interface ThrowAwayCluster {
  /** As `REDIS_URL` says it. */
  readonly url: string;
  readonly nodes: readonly ThrowAwayRedis[];
  /** Kills a node and starts it again on its port and folder. */
  restart(index: number, between?: () => Promise<unknown>): Promise<void>;
  stop(): Promise<void>;
}

/** Three primaries on loopback, a third of the slots each; their settings as throwAwayRedis has them. */
export async function throwAwayCluster(options: Partial<RedisServerOptions> = {}): Promise<ThrowAwayCluster> {
  const places = await Promise.all(
    Array.from({ length: NODES }, async () => ({ port: await freePort(), bus: await freePort() })),
  );
  const start = (index: number, dir?: string): Promise<ThrowAwayRedis> =>
    throwAwaySingle({
      ...options,
      port: places[index]?.port,
      ...(dir === undefined ? {} : { dir }),
      settings: {
        ...options.settings,
        "cluster-enabled": "yes",
        "cluster-node-timeout": "3000",
        // The usual one, the port and 10,000, is no port at all above 55,535.
        "cluster-port": String(places[index]?.bus),
      },
    });
  const nodes = await Promise.all(places.map((_place, index) => start(index)));
  await join(nodes, places, options.password);
  const secret = options.password === undefined ? "" : `:${options.password}@`;
  return {
    url: `redis+cluster://${secret}${nodes.map(({ port }) => `127.0.0.1:${port}`).join(",")}`,
    nodes,
    restart: async (index, between) => {
      const node = nodes[index];
      if (node === undefined) throw new Error(`no node ${index}`);
      process.kill(node.pid, "SIGKILL");
      await node.exited;
      await between?.();
      nodes[index] = { ...(await start(index, node.dir)), dir: node.dir };
    },
    stop: async () => {
      await Promise.all(nodes.map((node) => node.stop()));
    },
  };
}

async function join(
  nodes: readonly ThrowAwayRedis[],
  places: readonly { readonly port: number; readonly bus: number }[],
  password: string | undefined,
): Promise<void> {
  const ask = nodes.map(({ port }) => new Redis({ port, ...(password === undefined ? {} : { password }) }));
  try {
    const size = Math.ceil(SLOTS / NODES);
    await Promise.all(
      ask.map(async (redis, i) => {
        await redis.call("CLUSTER", "SET-CONFIG-EPOCH", i + 1);
        await redis.call("CLUSTER", "ADDSLOTSRANGE", i * size, Math.min(SLOTS, (i + 1) * size) - 1);
      }),
    );
    for (const place of places.slice(1)) await ask[0]?.call("CLUSTER", "MEET", "127.0.0.1", place.port, place.bus);
    const givenUpAt = Date.now() + PATIENCE_MS;
    for (const redis of ask) {
      while (!(await isWhole(redis))) {
        if (Date.now() > givenUpAt) throw new Error("the nodes did not become a cluster");
        await sleep(20);
      }
    }
  } finally {
    for (const redis of ask) redis.disconnect();
  }
}

async function isWhole(redis: Redis): Promise<boolean> {
  const info = String(await redis.call("CLUSTER", "INFO"));
  return info.includes("cluster_state:ok") && info.includes(`cluster_known_nodes:${NODES}`);
}

/**
 * What is asked of no key goes to any node of a cluster: here KEYS, CONFIG and SCRIPT are asked of all, so that a
 * test reads the same on one Redis and on three.
 */
export function everywhere(redis: Redis): Redis {
  if (!isCluster(redis)) return redis;
  const all = redis as Redis;
  const ask = async (name: string, args: unknown[]): Promise<unknown[]> =>
    Promise.all(
      primaries(all).map((node) => {
        const call: (...given: unknown[]) => Promise<unknown> = Reflect.get(node, name);
        return call.apply(node, args);
      }),
    );
  Reflect.set(all, "keys", async (...args: unknown[]) => (await ask("keys", args)).flat());
  for (const name of ["config", "script"])
    Reflect.set(all, name, async (...args: unknown[]) => (await ask(name, args))[0]);
  return all;
}

/** Which node has the keys of a lane. */
export async function nodeOf(redis: Redis, lane: string): Promise<number> {
  const slot = Number(await redis.call("CLUSTER", "KEYSLOT", laneTag(lane)));
  return Math.floor(slot / Math.ceil(SLOTS / NODES));
}
