import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { mkdir, realpath } from "node:fs/promises";
import { createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { messageOf, TurnqError } from "../domain/error.ts";
import { serverFolder } from "./clients.ts";
import { connect, whenReady } from "./connection.ts";
import { probe } from "./probe.ts";
import { DURABLE_SETTINGS } from "./settings.ts";

/** How to start a redis-server of our own. */
export interface RedisServerOptions {
  /** The program, from `findRedisServer`. */
  readonly binary: string;
  /** The folder of its data; made when it is missing. */
  readonly dir: string;
  /** A free loopback port when absent. */
  readonly port?: number | undefined;
  /** Without one, every local process may connect. */
  readonly password?: string | undefined;
  /** `always` by default; `everysec` and `no` can lose what was acknowledged. */
  readonly appendfsync?: "always" | "everysec" | "no" | undefined;
  /** More settings, by their names in redis.conf. */
  readonly settings?: Readonly<Record<string, string>> | undefined;
  /** Put before the program: it must become the server by exec, so that the pid stays. */
  readonly wrapper?: readonly string[] | undefined;
  /** In a session of its own, out of reach of Ctrl-C, and not awaited when this process ends. */
  readonly detached?: boolean | undefined;
  /** A file descriptor for what the server prints; thrown away by default. */
  readonly logFd?: number | undefined;
  /** How long the start may take, not counting the loading of data; 10 s by default. */
  readonly waitMs?: number | undefined;
}

/** How a server ended. */
export interface RedisServerExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A redis-server that this process started and owns. */
export interface RedisServer {
  /** With the password, if there is one: see `redactUrl`. */
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  /** Resolves when the process has ended, for whatever reason. Never rejects. */
  readonly exited: Promise<RedisServerExit>;
  /** Ends it, politely and after 5 s by force; what it acknowledged is on disk. Idempotent. */
  readonly stop: () => Promise<void>;
}

/** Thrown when the process ended before it answered. */
export class RedisServerStartError extends TurnqError {
  /** The exit code; null when a signal ended it. */
  readonly exitCode: number | null;

  constructor(message: string, exitCode: number | null) {
    super("redis_missing", message);
    this.exitCode = exitCode;
  }
}

const STOP_MS = 5_000;
const POLL_MS = 5;
const PORT_TRIES = 5;

/**
 * Starts a redis-server on 127.0.0.1 and waits until it answers. Append-only file, no eviction, no snapshots.
 * @throws RedisServerStartError when it ends before it answers, TurnqError `redis_missing` when it cannot be
 * started, `redis_unreachable` when it does not answer in time (it is killed then)
 */
export async function startRedisServer(options: RedisServerOptions): Promise<RedisServer> {
  await mkdir(options.dir, { recursive: true });
  for (let tries = 1; ; tries++) {
    const port = options.port ?? (await freePort());
    try {
      return await startOn(port, options);
    } catch (error) {
      // The port may have been taken since it was found free: redis-server then exits with 1.
      const retry = error instanceof RedisServerStartError && error.exitCode === 1 && options.port === undefined;
      if (!retry || tries === PORT_TRIES) throw error;
    }
  }
}

async function startOn(port: number, options: RedisServerOptions): Promise<RedisServer> {
  const [program, ...argv] = [...(options.wrapper ?? []), options.binary, "-"];
  if (program === undefined) throw new TurnqError("internal", "no program to start");
  const output = options.logFd ?? "ignore";
  const child = spawn(program, argv, {
    stdio: ["pipe", output, output],
    detached: options.detached ?? false,
  });
  const exited = exitOf(child);
  await started(child, program);
  // Settings go through stdin, not the command line, where every user of the machine could read the password.
  child.stdin?.on("error", () => undefined);
  child.stdin?.end(configuration(port, options));
  if (options.detached === true) child.unref();

  const url = `redis://${options.password === undefined ? "" : `:${options.password}@`}127.0.0.1:${port}`;
  const server: RedisServer = {
    url,
    port,
    pid: child.pid ?? 0,
    exited,
    stop: () => stop(child, exited),
  };
  await answering(server, await realpath(options.dir), options.waitMs ?? 10_000);
  return server;
}

function configuration(port: number, options: RedisServerOptions): string {
  const settings: Record<string, string> = {
    bind: "127.0.0.1",
    port: String(port),
    dir: options.dir,
    save: "",
    ...DURABLE_SETTINGS,
    appendfsync: options.appendfsync ?? DURABLE_SETTINGS.appendfsync,
    ...(options.password === undefined ? {} : { requirepass: options.password }),
    ...options.settings,
  };
  return Object.entries(settings)
    .map(([name, value]) => `${name} ${quote(value)}\n`)
    .join("");
}

/** redis.conf's own quoting, byte by byte for what is not plain ASCII. */
function quote(value: string): string {
  const bytes = [...Buffer.from(value, "utf8")].map((byte) => {
    const plain = byte >= 0x20 && byte < 0x7f && byte !== 0x22 && byte !== 0x5c;
    return plain ? String.fromCharCode(byte) : `\\x${byte.toString(16).padStart(2, "0")}`;
  });
  return `"${bytes.join("")}"`;
}

function exitOf(child: ChildProcess): Promise<RedisServerExit> {
  return new Promise((resolve) => {
    child.once("exit", (code, signal) => resolve({ code, signal }));
    child.once("error", () => resolve({ code: null, signal: null }));
  });
}

function started(child: ChildProcess, program: string): Promise<void> {
  return new Promise((resolve, reject) => {
    child.once("spawn", resolve);
    child.once("error", (error) => {
      reject(new TurnqError("redis_missing", `${program} cannot be started: ${messageOf(error)}`, { cause: error }));
    });
  });
}

async function answering(server: RedisServer, dir: string, waitMs: number): Promise<void> {
  let ended: RedisServerExit | undefined;
  void server.exited.then((exit) => (ended = exit));
  for (let givenUpAt = Date.now() + waitMs; ;) {
    const answer = await Promise.race([probe(server.url), server.exited]);
    if (ended !== undefined) {
      const how = ended.signal ?? `exit code ${ended.code}`;
      throw new RedisServerStartError(`redis-server ended before it answered (${how}).`, ended.code);
    }
    // Where the port was taken, another server answers while ours is about to end.
    if (answer === "up" && (await folderOf(server.url)) === dir) return;
    // Loading a large file is progress, however long it takes.
    if (answer === "loading") givenUpAt = Date.now() + waitMs;
    if (Date.now() > givenUpAt) {
      await server.stop();
      throw new TurnqError("redis_unreachable", `redis-server did not answer within ${waitMs} ms`);
    }
    await sleep(POLL_MS);
  }
}

async function folderOf(url: string): Promise<string | undefined> {
  const redis = connect(url, "producer");
  try {
    await whenReady(redis, 2_000);
    return await serverFolder(redis);
  } catch {
    return undefined;
  } finally {
    redis.disconnect();
  }
}

async function stop(child: ChildProcess, exited: Promise<RedisServerExit>): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), STOP_MS);
  await exited;
  clearTimeout(timer);
}

/** A loopback port that was free a moment ago. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", resolve);
  });
  const address = server.address();
  await new Promise<void>((resolve) => server.close(() => resolve()));
  if (address === null || typeof address === "string") throw new TurnqError("internal", "no port was given");
  return address.port;
}
