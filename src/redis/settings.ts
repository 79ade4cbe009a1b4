/**
 * What a Redis needs so that an accepted turn survives a kill: the embedded one is started with these,
 * `docker-compose.yml` has the same, and `doctor` asks for them.
 */
export const DURABLE_SETTINGS = {
  appendonly: "yes",
  appendfsync: "always",
  "maxmemory-policy": "noeviction",
} as const;

/** Oldest Redis with everything that the scripts use (`GETEX`, `COPY`, `XAUTOCLAIM`; BullMQ asks for the same). */
export const REDIS_VERSION_MIN = "6.2.0";

/** From here on `WAITAOF` can say that a write is on disk. */
export const REDIS_VERSION_WAITAOF = "7.2.0";
