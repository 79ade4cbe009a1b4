import { chmod, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { messageOf, TurnqError } from "../domain/error.ts";

/** Where the embedded server of a folder listens; kept in the folder, for its owner's eyes only. */
export const RedisAddress = z.object({
  v: z.literal(1),
  port: z.int().min(1).max(65_535),
  password: z.string().regex(/^[A-Za-z0-9_-]{16,}$/),
});
export type RedisAddress = z.infer<typeof RedisAddress>;

const FILE = "address.json";

/** The address as a Redis URL, password included. */
export function addressUrl(address: RedisAddress): string {
  return `redis://:${address.password}@127.0.0.1:${address.port}`;
}

/**
 * Makes the folder, closed to other users.
 * @throws TurnqError `config` when it cannot be made, or belongs to another user
 */
export async function prepareFolder(dir: string): Promise<void> {
  try {
    await mkdir(dir, { recursive: true, mode: 0o700 });
    await chmod(dir, 0o700);
  } catch (error) {
    throw new TurnqError("config", `the folder of the embedded Redis cannot be used: ${messageOf(error)}`, {
      cause: error,
      hint: "Give it to this user, or set REDIS_URL.",
    });
  }
}

/** undefined when there is none, or one that cannot be understood. */
export async function readAddress(dir: string): Promise<RedisAddress | undefined> {
  try {
    return RedisAddress.safeParse(JSON.parse(await readFile(join(dir, FILE), "utf8"))).data;
  } catch {
    return undefined;
  }
}

/** Readers see the old address or the new one, never half of it. */
export async function writeAddress(dir: string, address: RedisAddress): Promise<void> {
  const next = join(dir, `${FILE}.${process.pid}`);
  await writeFile(next, `${JSON.stringify(address)}\n`, { mode: 0o600 });
  await rename(next, join(dir, FILE));
}

/** Forgets the address: after the server has ended on purpose. */
export async function removeAddress(dir: string): Promise<void> {
  await rm(join(dir, FILE), { force: true });
}
