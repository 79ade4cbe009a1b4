import type { Redis } from "ioredis";

/** The name of a keeper's own connection: it is not a user of the server. */
export const KEEPER_NAME = "turnq-keeper";

/** Who is connected to an embedded server. */
export interface Clients {
  /** Connections of anybody but keepers, the asking one included. */
  readonly users: number;
  readonly keepers: number;
}

/** Counts a server's connections. */
export async function countClients(redis: Redis): Promise<Clients> {
  const list = String(await redis.client("LIST"));
  const lines = list.split("\n").filter((line) => line.trim() !== "");
  const keepers = lines.filter((line) => line.includes(` name=${KEEPER_NAME} `)).length;
  return { users: lines.length - keepers, keepers };
}

/** The folder that a server keeps its data in, as the kernel names it. */
export async function serverFolder(redis: Redis): Promise<string | undefined> {
  return readSetting(redis, "dir");
}

/** The process of a server. */
export async function serverPid(redis: Redis): Promise<number> {
  return Number(/^process_id:(\d+)/m.exec(await redis.info("server"))?.[1]);
}

/** How many connections a server takes. */
export async function maxClients(redis: Redis): Promise<number> {
  return Number((await readSetting(redis, "maxclients")) ?? Number.NaN);
}

/** What the limit is when nobody is ending the server. */
export const MAX_CLIENTS = 10_000;

/**
 * Asked by a keeper, its only other client being users: lets nobody in any more, then looks again. True when the
 * server may be ended; false, with the door open again, when somebody came in before it closed, or when it died.
 */
export async function closeDoor(redis: Redis): Promise<boolean> {
  try {
    await redis.config("SET", "maxclients", 1);
    if ((await countClients(redis)).users === 0) return true;
    await redis.config("SET", "maxclients", MAX_CLIENTS);
  } catch {
    // It died: whoever starts it again starts it with the door open.
  }
  return false;
}

async function readSetting(redis: Redis, name: string): Promise<string | undefined> {
  const reply = await redis.config("GET", name);
  const value: unknown = Array.isArray(reply) ? reply[1] : undefined;
  return typeof value === "string" ? value : undefined;
}
