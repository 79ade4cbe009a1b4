import type { Redis } from "ioredis";

/** The policy by which this Redis drops keys when its memory is full; undefined for none, or where it does not tell. */
export async function evictionPolicy(redis: Redis): Promise<string | undefined> {
  // A question that is refused, or not answered, is no reason to do without this Redis.
  const info = await redis.info("memory").catch(() => "");
  const policy = /^maxmemory_policy:([\w-]+)/m.exec(info)?.[1];
  return policy === "noeviction" ? undefined : policy;
}
