import { spawn } from "node:child_process";
import { closeSync, fstatSync, ftruncateSync, openSync } from "node:fs";
import { readFile, realpath } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, extname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath, pathToFileURL } from "node:url";
import type { Redis } from "ioredis";
import { TurnqError } from "../domain/error.ts";
import { addressUrl, prepareFolder, readAddress } from "./address.ts";
import type { RedisAddress } from "./address.ts";
import { countClients, MAX_CLIENTS, maxClients, serverFolder, serverPid } from "./clients.ts";
import { connect, whenReady } from "./connection.ts";
import { findLockProgram, LOCK_HELD_EXIT_CODE, lockWrapper } from "./folder-lock.ts";
import { probe } from "./probe.ts";

/** How to find or start the embedded Redis of a folder. */
export interface EmbeddedRedisOptions {
  /** The folder of its data, `.turnq/redis` of a project. */
  readonly dir: string;
  /** A redis-server, from `findRedisServer`. */
  readonly binary: string;
  /** The text of `PATH`: all that keeper and server get of the environment. */
  readonly pathEnv: string | undefined;
  /** The keeper's program; this package's own by default. */
  readonly keeperEntry?: string | undefined;
  /** How long to wait for a server, not counting the loading of data; 15 s by default. */
  readonly waitMs?: number | undefined;
  /** How long the server outlives its last user; 5 s by default. Only whoever starts the keeper decides. */
  readonly idleMs?: number | undefined;
}

/** A running embedded Redis, which this process counts as a user of until it closes the handle. */
export interface EmbeddedRedis {
  /** With the password: see `redactUrl`. */
  readonly url: string;
  readonly port: number;
  /** Of the server, which belongs to its keeper. */
  readonly pid: number;
  /** True when it was running already. */
  readonly adopted: boolean;
  /** Gives up the claim: 5 s after the last user has gone the keeper ends the server. Idempotent. */
  readonly close: () => void;
}

const POLL_MS = 20;
const LOG_MAX_BYTES = 1_000_000;
/** How long the server may be away before a user looks whether its keeper lives. */
const REVIVE_MS = 1_000;

/**
 * Connects to the running Redis of a folder, or has one started: append-only file, every write synced. Several
 * processes that ask at once get the same server. It belongs to a keeper process in a session of its own.
 * @throws TurnqError `redis_unreachable` when none answers in time, with what the keeper said
 */
export async function ensureEmbeddedRedis(options: EmbeddedRedisOptions): Promise<EmbeddedRedis> {
  await prepareFolder(options.dir);
  const waitMs = options.waitMs ?? 15_000;
  let givenUpAt = Date.now() + waitMs;
  let keeper: KeeperStart | undefined;
  for (;;) {
    const address = await readAddress(options.dir);
    const answer = address === undefined ? "down" : await probe(addressUrl(address));
    const claim = address !== undefined && answer === "up" ? await claimServer(address, options) : undefined;
    if (claim !== undefined) return embedded(claim, keeper === undefined, options);
    if (answer === "loading") givenUpAt = Date.now() + waitMs;
    if (keeper?.exitCode !== undefined && keeper.exitCode !== LOCK_HELD_EXIT_CODE && keeper.exitCode !== 0) {
      throw await unreachable("the keeper of the embedded Redis gave up", options);
    }
    if (Date.now() > givenUpAt)
      throw await unreachable(`the embedded Redis did not answer within ${waitMs} ms`, options);
    // A keeper that is just ending its server holds the lock for a moment: then the next try succeeds.
    if (keeper === undefined || keeper.exitCode !== undefined) keeper = await startKeeper(options);
    await sleep(POLL_MS);
  }
}

interface Claim {
  readonly address: RedisAddress;
  readonly redis: Redis;
  readonly pid: number;
  readonly kept: boolean;
}

/** A connection that marks this process as a user; undefined when the server is not this folder's, or is ending. */
async function claimServer(address: RedisAddress, options: EmbeddedRedisOptions): Promise<Claim | undefined> {
  const redis = connect(addressUrl(address), "producer", { name: "turnq" });
  try {
    await whenReady(redis, 5_000);
    if ((await serverFolder(redis)) !== (await realpath(options.dir))) throw new Error("another server");
    const { keepers } = await countClients(redis);
    // A keeper that died while it closed the door would lock out its successor too.
    if (keepers === 0 && (await maxClients(redis)) === 1) await redis.config("SET", "maxclients", MAX_CLIENTS);
    return { address, redis, pid: await serverPid(redis), kept: keepers > 0 };
  } catch {
    redis.disconnect();
    return undefined;
  }
}

/** Has a keeper started where the server is away, or has none: it would outlive its last user. */
async function revive(redis: Redis, options: EmbeddedRedisOptions): Promise<void> {
  if (redis.status !== "ready" || (await countClients(redis)).keepers === 0) await startKeeper(options);
}

async function embedded(claim: Claim, adopted: boolean, options: EmbeddedRedisOptions): Promise<EmbeddedRedis> {
  const { redis, address, pid } = claim;
  if (!claim.kept) await startKeeper(options);
  const guard = setInterval(() => {
    void revive(redis, options).catch(() => undefined);
  }, REVIVE_MS);
  guard.unref();
  const close = (): void => {
    clearInterval(guard);
    redis.disconnect();
  };
  return { url: addressUrl(address), port: address.port, pid, adopted, close };
}

interface KeeperStart {
  /** undefined while it runs; {@link LOCK_HELD_EXIT_CODE} when another keeper runs. */
  exitCode: number | undefined;
}

/** Where a keeper runs already, the new one ends at once by the lock: to call this is always safe. */
async function startKeeper(options: EmbeddedRedisOptions): Promise<KeeperStart> {
  const lock = findLockProgram(options.pathEnv);
  const entry = options.keeperEntry ?? ownKeeperEntry();
  const argv = ["--dir", options.dir, "--binary", options.binary];
  if (lock !== undefined) argv.push("--lock", lock);
  if (options.idleMs !== undefined) argv.push("--idle-ms", String(options.idleMs));
  const command = [...lockWrapper(lock, join(options.dir, "keeper.lock")), process.execPath, ...loaderOf(entry), entry];
  const [program = process.execPath, ...rest] = [...command, ...argv];
  const log = openLog(options.dir);
  const start: KeeperStart = { exitCode: undefined };
  try {
    const child = spawn(program, rest, {
      cwd: options.dir,
      detached: true,
      stdio: ["ignore", log, log],
      // No more of it: keys do not belong in a process that outlives its starter, nor does the mark of a turn.
      env: options.pathEnv === undefined ? {} : { PATH: options.pathEnv },
    });
    child.once("exit", (code) => (start.exitCode = code ?? 1));
    child.once("error", () => (start.exitCode = 1));
    child.unref();
  } finally {
    closeSync(log);
  }
  return start;
}

function openLog(dir: string): number {
  const log = openSync(join(dir, "keeper.log"), "a", 0o600);
  if (fstatSync(log).size > LOG_MAX_BYTES) ftruncateSync(log);
  return log;
}

/** `workers/redis-keeper` beside `src`, in the same form (source or build) as this file. */
function ownKeeperEntry(): string {
  const here = fileURLToPath(import.meta.url);
  return join(dirname(here), "..", "..", "workers", `redis-keeper${extname(here)}`);
}

/** Node 20 strips no types: a TypeScript entry, as in the tests, needs a loader. */
function loaderOf(entry: string): string[] {
  if (!entry.endsWith(".ts")) return [];
  const jiti = dirname(createRequire(import.meta.url).resolve("jiti/package.json"));
  return ["--import", pathToFileURL(join(jiti, "lib", "jiti-register.mjs")).href];
}

async function unreachable(what: string, options: EmbeddedRedisOptions): Promise<TurnqError> {
  const log = join(options.dir, "keeper.log");
  const lines = (await readFile(log, "utf8").catch(() => "")).trim().split("\n");
  return new TurnqError("redis_unreachable", `${what}; its last words, in ${log}:\n${lines.slice(-5).join("\n")}`);
}
