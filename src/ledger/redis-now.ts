import type { Redis } from "ioredis";

/** Epoch ms by the clock of Redis, which all processes of a store share. */
export async function redisNow(redis: Redis): Promise<number> {
  const [seconds, micros] = await redis.time();
  return Number(seconds) * 1000 + Math.floor(Number(micros) / 1000);
}
