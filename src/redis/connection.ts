import { Redis } from "ioredis";
import type { Cluster, RedisOptions } from "ioredis";
import { isTurnqError, messageOf, TurnqError } from "../domain/error.ts";
import { TIMER_MAX_MS } from "../domain/limits.ts";
import { clusterAddress, copyCluster, isCluster, openCluster, shownCluster, type ClusterSettings } from "./cluster.ts";
import { endFailedCalls } from "./failed-calls.ts";
import { redactUrl } from "./url.ts";

/**
 * `producer`: a call fails at once while Redis is away, so that its caller knows what was stored.
 * `worker`: a call waits until Redis is back; its callers own their deadlines.
 */
export type ConnectionRole = "producer" | "worker";

/** A URL (`redis+cluster://…` for a cluster), options, or a connection whose settings are taken over. */
export type RedisTarget = string | RedisOptions | Redis | Cluster;

export interface ConnectOptions {
  /** Shown by `CLIENT LIST`. */
  readonly name?: string | undefined;
  /** Called for every connection error: an outage calls it at each try. It must not throw. */
  readonly onError?: ((error: Error) => void) | undefined;
  /** How long one try to connect may take; 5 s by default. */
  readonly connectTimeoutMs?: number | undefined;
  /** Producers only: how long a command may go unanswered; 10 s by default. */
  readonly commandTimeoutMs?: number | undefined;
}

/** Settings with the reply shapes that all our code reads, whatever the target's own connection uses. */
export type ConnectionSettings = RedisOptions & { readonly replyMapping: "legacy" };

/** Longest wait between two tries to reconnect: BullMQ's own default grows to 20 s. */
const RETRY_MAX_MS = 500;

/** Without a refusal for so long the next one is a first one. */
const CALM_MS = 2000;

/** The settings of a role, to be laid over those of a target. */
export function redisOptions(role: ConnectionRole, options: ConnectOptions = {}): ConnectionSettings {
  let refusals = 0;
  let refusedMs = 0;
  const recent = (): number => (performance.now() - refusedMs > CALM_MS ? 0 : refusals);
  return {
    replyMapping: "legacy",
    connectTimeout: options.connectTimeoutMs ?? 5_000,
    keepAlive: 10_000,
    // One that is connected and refused again and again is no first try either.
    retryStrategy: (tries) => Math.min(RETRY_MAX_MS, 25 * 2 ** Math.min(Math.max(tries, recent()), 5)),
    // After a failover the old primary answers READONLY, a loading one LOADING: go on elsewhere, and send again.
    reconnectOnError: (error) => {
      if (!/^(READONLY|LOADING)\b/.test(error.message)) return false;
      refusals = recent() + 1;
      refusedMs = performance.now();
      return 2;
    },
    ...(options.name === undefined ? {} : { connectionName: options.name }),
    ...(role === "producer"
      ? { enableOfflineQueue: false, maxRetriesPerRequest: 1, commandTimeout: options.commandTimeoutMs ?? 10_000 }
      : { enableOfflineQueue: true, maxRetriesPerRequest: null }),
  };
}

/**
 * Opens a connection. It goes on trying for ever until it is closed; its errors go to `onError` and never become
 * an unhandled `error` event. A producer's first call must come after {@link whenReady}. The caller closes it.
 * @throws TurnqError `config` for a target with a keyPrefix (BullMQ's scripts build their keys themselves)
 */
export function connect(target: RedisTarget, role: ConnectionRole, options: ConnectOptions = {}): Redis {
  if (typeof target !== "string" && (typeof target !== "object" || (target as unknown) === null))
    throw new TurnqError("config", "no Redis is given", {
      where: "redis",
      hint: "Give its URL, such as redis://HOST:PORT.",
    });
  const settings = redisOptions(role, options);
  const given = target instanceof Redis || isCluster(target);
  const prefix = typeof target === "string" ? undefined : (given ? target.options : target).keyPrefix;
  if (prefix !== undefined && prefix !== "") {
    throw new TurnqError("config", "a Redis connection for turnq cannot have a keyPrefix");
  }
  const redis = open(target, role, settings);
  redis.on("error", options.onError ?? (() => undefined));
  if (role === "producer") endFailedCalls(redis);
  return redis;
}

/**
 * How a role's settings are said to a cluster: nodes are not waited for one by one, a command is sent again by way of
 * the cluster. A worker's goes on until its slot has a node again, a producer's for about two seconds.
 */
export function clusterOptions(role: ConnectionRole, settings: ConnectionSettings): ClusterSettings {
  const { retryStrategy, enableOfflineQueue, ...node } = settings;
  return {
    redisOptions: node,
    enableOfflineQueue: enableOfflineQueue ?? true,
    clusterRetryStrategy: retryStrategy,
    retryDelayOnFailover: 100,
    retryDelayOnClusterDown: 100,
    slotsRefreshTimeout: settings.connectTimeout ?? 5_000,
    maxRedirections: role === "worker" ? Number.MAX_SAFE_INTEGER : 16,
    lazyConnect: false,
  };
}

function open(target: RedisTarget, role: ConnectionRole, settings: ConnectionSettings): Redis {
  if (typeof target === "string") {
    const cluster = clusterAddress(target);
    if (cluster === undefined) return openUrl(target, settings);
    const { nodes, username, password, tls } = cluster;
    return openCluster(nodes, clusterOptions(role, { ...settings, username, password, ...(tls ? { tls: {} } : {}) }));
  }
  if (isCluster(target)) {
    return copyCluster(target, clusterOptions(role, { ...target.options.redisOptions, ...settings }));
  }
  if (target instanceof Redis) return target.duplicate({ ...settings, lazyConnect: false });
  return new Redis({ ...target, ...settings });
}

function openUrl(url: string, settings: ConnectionSettings): Redis {
  try {
    if (/^(?!rediss?:)[a-z+]+:\/\//i.test(url)) throw new Error("it begins with another word than redis");
    return new Redis(url, settings);
  } catch (error) {
    throw new TurnqError("config", `this is no URL of a Redis: ${redactUrl(url)}`, {
      cause: error,
      where: "redis",
      hint: "Write redis://HOST:PORT (rediss:// for TLS), or redis+cluster://HOST:PORT,… for a Redis Cluster.",
    });
  }
}

/**
 * Waits until the connection can be used.
 * @throws TurnqError `redis_unreachable` when it is not ready within `withinMs`, `redis_refused` for a wrong password
 */
export async function whenReady(redis: Redis, withinMs: number): Promise<void> {
  if (redis.status === "ready") return;
  await new Promise<void>((resolve, reject) => {
    let last: Error | undefined;
    const settle = (act: () => void): void => {
      clearTimeout(timer);
      redis.off("ready", onReady).off("error", onError).off("end", onEnd);
      act();
    };
    const onReady = (): void => settle(resolve);
    const onEnd = (): void => settle(() => reject(unreachable(redis, last, "the connection was closed")));
    const onError = (error: Error): void => {
      last = error;
      if (isRefusal(error)) settle(() => reject(redisError(Reflect.get(error, "lastNodeError") ?? error, redis)));
    };
    const timer = setTimeout(
      () => {
        settle(() => reject(unreachable(redis, last, `no answer within ${withinMs} ms`)));
      },
      Math.min(withinMs, TIMER_MAX_MS),
    );
    redis.on("ready", onReady).on("error", onError).on("end", onEnd);
  });
}

/**
 * What a failed Redis call means, as a TurnqError: `redis_refused` when Redis answered with an error,
 * `redis_unreachable` when it did not answer. A TurnqError stays as it is.
 */
export function redisError(thrown: unknown, redis?: Redis): TurnqError {
  if (isTurnqError(thrown)) return thrown;
  const error = thrown instanceof Error ? thrown : new Error(messageOf(thrown));
  if (isReply(error)) {
    return new TurnqError("redis_refused", `Redis answered: ${error.message}`, {
      cause: error,
      where: redis === undefined ? undefined : describe(redis),
    });
  }
  return unreachable(redis, error, undefined);
}

function unreachable(redis: Redis | undefined, cause: Error | undefined, what: string | undefined): TurnqError {
  const reasons = [what, cause?.message].filter((text) => text !== undefined && text !== "");
  const where = redis === undefined ? "" : ` at ${describe(redis)}`;
  return new TurnqError("redis_unreachable", `Redis${where} cannot be reached (${reasons.join("; ")})`, {
    cause,
    hint: "Is it running, and is REDIS_URL right?",
  });
}

/** Where a connection goes, without its password. */
function describe(redis: Redis): string {
  if (isCluster(redis)) return shownCluster(clusterOf(redis as unknown as Cluster));
  const { host, port, path, tls } = redis.options;
  if (path !== undefined && path !== null) return path;
  return redactUrl(`${tls === undefined ? "redis" : "rediss"}://${host ?? "localhost"}:${port ?? 6379}`);
}

function clusterOf(cluster: Cluster): Parameters<typeof shownCluster>[0] {
  const seeds: readonly { readonly host?: string; readonly port?: number }[] = Reflect.get(cluster, "startupNodes");
  const nodes = seeds.map(({ host = "localhost", port = 6379 }) => ({ host, port }));
  return { nodes, tls: cluster.options.redisOptions?.tls !== undefined };
}

function isReply(error: Error): boolean {
  return error.name === "ReplyError";
}

/** Errors that trying again does not mend. */
function isRefusal(error: Error): boolean {
  // A cluster says that no node could be asked, and in it what the last one answered.
  const last: unknown = Reflect.get(error, "lastNodeError");
  if (last instanceof Error) return isRefusal(last);
  return isReply(error) && /^(NOAUTH|WRONGPASS|NOPERM|ERR invalid password)/.test(error.message);
}
