import type { Redis } from "ioredis";
import { primaries } from "./cluster.ts";

/** The policy by which this Redis, or a node of it, drops keys when its memory is full; undefined for none, or where it does not tell. */
export async function evictionPolicy(redis: Redis): Promise<string | undefined> {
  const policies = await Promise.all(
    primaries(redis).map(async (node) => {
      // A question that is refused, or not answered, is no reason to do without this Redis.
      const info = await node.info("memory").catch(() => "");
      return /^maxmemory_policy:([\w-]+)/m.exec(info)?.[1];
    }),
  );
  return policies.find((policy) => policy !== undefined && policy !== "noeviction");
}
