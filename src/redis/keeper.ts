import { randomBytes } from "node:crypto";
import { realpath, stat } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Redis } from "ioredis";
import { messageOf, TurnqError } from "../domain/error.ts";
import { addressUrl, readAddress, removeAddress, writeAddress } from "./address.ts";
import type { RedisAddress } from "./address.ts";
import { closeDoor, countClients, KEEPER_NAME, MAX_CLIENTS, serverFolder, serverPid } from "./clients.ts";
import { connect, whenReady } from "./connection.ts";
import { LOCK_HELD_EXIT_CODE, lockWrapper } from "./folder-lock.ts";
import type { LockProgram } from "./folder-lock.ts";
import { probe } from "./probe.ts";
import { freePort, RedisServerStartError, startRedisServer } from "./server.ts";

/** What a keeper needs to know. */
export interface KeeperOptions {
  /** The folder of the embedded Redis; it exists. */
  readonly dir: string;
  readonly binary: string;
  readonly lock: LockProgram | undefined;
  /** How long nobody may be connected before the server is ended; 5 s by default. */
  readonly idleMs?: number | undefined;
  /** How often it looks; 250 ms by default. */
  readonly pollMs?: number | undefined;
  readonly log: (line: string) => void;
  /** Aborted: the server is ended at once, whoever uses it. */
  readonly signal?: AbortSignal | undefined;
}

/** How long another holder of the folder's lock may take to end or to answer. */
const LOCK_WAIT_MS = 60_000;
/** How long a server may take to end before it is killed. */
const END_MS = 10_000;
const RESTARTS_MAX = 5;
const RESTARTS_WITHIN_MS = 10_000;

/**
 * Owns the server of one folder: starts or adopts it, starts it again when it dies, ends it when it is not used.
 * One keeper at a time runs for a folder (its starter holds a lock for it). Resolves when the server has ended;
 * rejects when it cannot be started, or died {@link RESTARTS_MAX} times in a row.
 */
export async function runKeeper(options: KeeperOptions): Promise<void> {
  const inode = (await stat(options.dir)).ino;
  const pollMs = options.pollMs ?? 250;
  const restartsAt: number[] = [];
  let held = await adoptOrStart(options);
  let usedAt = Date.now();
  for (;;) {
    if (options.signal?.aborted === true || !(await isFolder(options.dir, inode))) {
      options.log("ending the server: told to, or its folder is gone");
      return end(held, options);
    }
    if (held.redis.status !== "ready" && (await probe(addressUrl(held.address))) !== "loading") {
      noteRestart(restartsAt, options);
      held.redis.disconnect();
      held = await adoptOrStart(options);
      usedAt = Date.now();
    }
    if (await isUsed(held.redis)) usedAt = Date.now();
    else if (Date.now() - usedAt >= (options.idleMs ?? 5_000)) {
      if (await closeDoor(held.redis)) return end(held, options);
      usedAt = Date.now();
    }
    await sleep(pollMs, undefined, { signal: options.signal }).catch(() => undefined);
  }
}

interface Held {
  readonly address: RedisAddress;
  readonly redis: Redis;
  readonly pid: number;
}

async function adoptOrStart(options: KeeperOptions): Promise<Held> {
  const givenUpAt = Date.now() + LOCK_WAIT_MS;
  for (let told = false; ; told = true) {
    const recorded = await readAddress(options.dir);
    const adopted = recorded === undefined ? undefined : await hold(recorded, options.dir);
    if (adopted !== undefined) {
      options.log(`adopted the server on port ${adopted.address.port}`);
      // A keeper that was killed while it closed the door left it closed.
      await adopted.redis.config("SET", "maxclients", MAX_CLIENTS);
      return adopted;
    }
    const started = await start(recorded, options);
    if (started !== undefined) return started;
    if (Date.now() > givenUpAt) {
      throw new TurnqError("redis_unreachable", `a redis-server that does not answer holds ${lockFile(options)}`);
    }
    if (!told) options.log("waiting for another server of this folder to answer or to end");
    await sleep(100);
  }
}

/** undefined when the server there is none of ours, or does not answer. */
async function hold(address: RedisAddress, dir: string): Promise<Held | undefined> {
  const url = addressUrl(address);
  if ((await probe(url)) !== "up") return undefined;
  const redis = connect(url, "producer", { name: KEEPER_NAME });
  try {
    await whenReady(redis, 5_000);
    if ((await serverFolder(redis)) === (await realpath(dir))) return { address, redis, pid: await serverPid(redis) };
  } catch {
    // It ended meanwhile.
  }
  redis.disconnect();
  return undefined;
}

/** undefined when another server holds the folder. */
async function start(recorded: RedisAddress | undefined, options: KeeperOptions): Promise<Held | undefined> {
  // The old address again, where possible: who still uses it finds the server there.
  let address = recorded ?? { v: 1, port: await freePort(), password: newPassword() };
  for (let tries = 1; ; tries++) {
    // Before the start: a server whose address nobody knows could never be adopted.
    await writeAddress(options.dir, address);
    try {
      const server = await startRedisServer({
        binary: options.binary,
        dir: options.dir,
        port: address.port,
        password: address.password,
        wrapper: lockWrapper(options.lock, lockFile(options)),
        detached: true,
        logFd: 1,
        settings: { maxclients: String(MAX_CLIENTS) },
      });
      options.log(`started the server on port ${address.port}, pid ${server.pid}`);
      const held = await hold(address, options.dir);
      // It runs, but cannot be held: its folder has gone, say. Nobody else would ever end it.
      if (held === undefined) await server.stop();
      return held;
    } catch (error) {
      if (!(error instanceof RedisServerStartError)) throw error;
      if (error.exitCode === LOCK_HELD_EXIT_CODE) return undefined;
      if (tries === 3) throw error;
      options.log(`the server did not start on port ${address.port}: ${messageOf(error)}`);
      address = { v: 1, port: await freePort(), password: newPassword() };
    }
  }
}

function lockFile(options: KeeperOptions): string {
  return join(options.dir, "server.lock");
}

function newPassword(): string {
  return randomBytes(24).toString("base64url");
}

function noteRestart(restartsAt: number[], options: KeeperOptions): void {
  const nowAt = Date.now();
  restartsAt.push(nowAt);
  while ((restartsAt[0] ?? nowAt) < nowAt - RESTARTS_WITHIN_MS) restartsAt.shift();
  if (restartsAt.length > RESTARTS_MAX) {
    throw new TurnqError("redis_unreachable", `the server died ${restartsAt.length} times within 10 s`);
  }
  options.log("the server has gone without being told to: starting it again");
}

/** A server that does not answer is taken for used: nothing is ended because of a hiccup. */
async function isUsed(redis: Redis): Promise<boolean> {
  try {
    return (await countClients(redis)).users > 0;
  } catch {
    return true;
  }
}

async function end(held: Held, options: KeeperOptions): Promise<void> {
  // A connection that is refused or cut is the answer that is hoped for.
  await held.redis.shutdown("NOSAVE").catch(() => undefined);
  held.redis.disconnect();
  const killedAt = Date.now() + END_MS;
  while ((await probe(addressUrl(held.address))) !== "down" || isRunning(held.pid)) {
    if (Date.now() > killedAt && isRunning(held.pid)) process.kill(held.pid, "SIGKILL");
    await sleep(20);
  }
  await removeAddress(options.dir);
  options.log("the server has ended");
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

async function isFolder(dir: string, inode: number): Promise<boolean> {
  try {
    return (await stat(dir)).ino === inode;
  } catch {
    return false;
  }
}
