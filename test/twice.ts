import type { Redis } from "ioredis";
import { expect } from "vitest";
import { commandOf, defineScripts, SCRIPT_NAMES, type ScriptName } from "../src/ledger/scripts.ts";

type Call = (...args: unknown[]) => Promise<unknown>;

/**
 * From here on this connection executes every script twice with the same arguments, as ioredis
 * does after a cut connection, and holds the two answers and the state after each against one another.
 */
export function executeTwice(redis: Redis, tag: string): void {
  defineScripts(redis);
  for (const name of SCRIPT_NAMES) {
    for (const suffix of ["", "Buffer"]) {
      const command = `${commandOf(name)}${suffix}`;
      const once = Reflect.get(redis, command) as Call;
      // A pipeline takes over the commands of its connection: there nothing is awaited one by one.
      Reflect.set(redis, command, async function (this: unknown, ...args: unknown[]): Promise<unknown> {
        const first = await once.apply(this, args);
        if (this !== redis) return first;
        const before = masked(name, await dump(redis, tag));
        const second = await once.apply(redis, args);
        expect(withoutClock(name, second), `${name} answers differently when it is executed twice`).toEqual(
          withoutClock(name, first),
        );
        expect(masked(name, await dump(redis, tag)), `${name} changes something when it is executed twice`).toEqual(
          before,
        );
        return first;
      });
    }
  }
}

/** What `wait` and `gate` answer is the time that is left: it shrinks. */
function withoutClock(name: ScriptName, answer: unknown): unknown {
  const kind: unknown = Array.isArray(answer) ? answer[0] : undefined;
  const text = name === "begin" && Buffer.isBuffer(kind) ? kind.toString() : "";
  return text === "wait" || text === "gate" ? text : answer;
}

/** A renewal is the only script whose second execution may write: later instants. */
function masked(name: ScriptName, state: ReadonlyMap<string, unknown>): Record<string, unknown> {
  const kept = new Map(state);
  if (name === "renew") {
    for (const [key, value] of state) {
      if (key.endsWith("/leases")) kept.set(key, Object.keys(value as object));
      if (key.endsWith("/lane")) kept.set(key, { ...(value as object), renewedAt: "an instant" });
    }
  }
  return Object.fromEntries(kept);
}

/** Every key of a lane, with its whole value, and whether it expires; without the settings that a BullMQ queue writes when it opens. */
export async function dump(redis: Redis, tag: string): Promise<Map<string, unknown>> {
  const keys = (await redis.keys(`${tag.replaceAll(/[[\]?*\\]/g, "\\$&")}*`))
    .filter((key) => !key.endsWith(":meta"))
    .toSorted();
  const values = await Promise.all(
    keys.map(async (key) => {
      const [type, ttl] = await Promise.all([redis.type(key), redis.ttl(key)]);
      return [ttl === -1 ? key : `${key} (expires)`, await valueOf(redis, key, type)] as const;
    }),
  );
  return new Map(values);
}

async function valueOf(redis: Redis, key: string, type: string): Promise<unknown> {
  switch (type) {
    case "string":
      return (await redis.getBuffer(key))?.toString("base64");
    case "hash":
      return redis.hgetall(key);
    case "list":
      return (await redis.lrangeBuffer(key, 0, -1)).map((bytes) => bytes.toString("base64"));
    case "set":
      return (await redis.smembers(key)).toSorted();
    case "zset": {
      const flat = await redis.zrange(key, "0", "-1", "WITHSCORES");
      return Object.fromEntries(flat.flatMap((member, i) => (i % 2 === 0 ? [[member, flat[i + 1]]] : [])));
    }
    case "stream":
      return redis.xrange(key, "-", "+");
    default:
      throw new Error(`${key} is a ${type}`);
  }
}
