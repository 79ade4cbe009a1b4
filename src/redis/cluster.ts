import { Cluster } from "ioredis";
import type { ClusterOptions, Redis, RedisOptions } from "ioredis";
import { TurnqError } from "../domain/error.ts";

/** A node of a cluster, as its first contact. */
export interface ClusterSeed {
  readonly host: string;
  readonly port: number;
}

/** Settings of a cluster and of the connections to its nodes. */
export type ClusterSettings = ClusterOptions & {
  readonly redisOptions: RedisOptions & { readonly replyMapping: "legacy" };
};

/** What the URL of a cluster says. */
export interface ClusterAddress {
  readonly nodes: readonly ClusterSeed[];
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  readonly tls: boolean;
}

const FORM = "redis+cluster://[user:password@]host:port[,host:port…]";
const SCHEME = /^(rediss?)\+cluster:\/\//i;
/** What others write, or what one would guess: never taken for a single Redis. */
const MISTAKEN = /^(rediss?-?cluster|cluster|rediss?\+?clusters):\/\/|[?&]cluster=/i;
const DEFAULT_PORT = 6379;

/** What this URL says of a cluster; undefined for one of a single Redis. Throws `config` for a cluster in another form. */
export function clusterAddress(url: string): ClusterAddress | undefined {
  const scheme = SCHEME.exec(url);
  if (scheme !== null) return parse(url.slice(scheme[0].length), scheme[1]?.toLowerCase() === "rediss");
  const hosts = /^rediss?:\/\/(?:.*@)?([^/?]*)/i.exec(url)?.[1] ?? "";
  if (MISTAKEN.test(url) || hosts.includes(",")) throw badForm("this is not how the URL of a Redis Cluster is written");
  return undefined;
}

function parse(rest: string, tls: boolean): ClusterAddress {
  const [place = "", ...more] = rest.split("/");
  if (more.some((part) => part !== "")) throw badForm("a Redis Cluster has one database: nothing follows its hosts");
  const at = place.lastIndexOf("@");
  const nodes = place
    .slice(at + 1)
    .split(",")
    .map(seedOf);
  if (at < 0) return { nodes, tls };
  const [username = "", ...password] = place.slice(0, at).split(":");
  return { nodes, tls, username: decoded(username), password: decoded(password.join(":")) };
}

function seedOf(text: string): ClusterSeed {
  let url: URL;
  try {
    url = new URL(`http://${text}`);
  } catch {
    throw badForm("the URL of the Redis Cluster has a host that cannot be read");
  }
  if (text === "" || text.includes("?") || text.includes("#"))
    throw badForm("the URL of the Redis Cluster lacks a host");
  // A URL leaves out the port that its scheme has anyway.
  const port = text.endsWith(":80") ? 80 : url.port === "" ? DEFAULT_PORT : Number(url.port);
  return { host: url.hostname.replaceAll(/^\[|\]$/g, ""), port };
}

function decoded(text: string): string | undefined {
  if (text === "") return undefined;
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function badForm(message: string): TurnqError {
  return new TurnqError("config", message, { where: "REDIS_URL", hint: `Write ${FORM} (rediss+cluster:// for TLS).` });
}

/** For people and logs: no password. */
export function shownCluster({ nodes, tls, password }: ClusterAddress): string {
  const hosts = nodes.map(({ host, port }) => `${host.includes(":") ? `[${host}]` : host}:${port}`).join(",");
  return `${tls ? "rediss" : "redis"}+cluster://${password === undefined ? "" : ":***@"}${hosts}`;
}

export function isCluster(redis: unknown): redis is Cluster {
  return redis instanceof Cluster;
}

/** The connections to all primaries of a cluster; of a single Redis its own. */
export function primaries(redis: Redis): Redis[] {
  return isCluster(redis) ? (redis as unknown as Cluster).nodes("master") : [redis];
}

/**
 * Opens a cluster. What a lane needs is in one slot, so that a Cluster stands in for a Redis everywhere: it has the
 * same commands, MULTI and subscriptions. What is asked of no key in particular (INFO, CONFIG, KEYS) goes to any node.
 */
export function openCluster(seeds: readonly ClusterSeed[], options: ClusterSettings): Redis {
  return new Cluster([...seeds], options) as unknown as Redis;
}

/** A copy of a given Cluster, with these settings. */
export function copyCluster(cluster: Cluster, options: ClusterSettings): Redis {
  return cluster.duplicate([], options) as unknown as Redis;
}

/**
 * Refuses a connection that goes to one node of a cluster only: it would answer for the keys of that node alone.
 * @throws TurnqError `config`
 */
export async function refuseClusterNode(redis: Redis): Promise<void> {
  if (isCluster(redis)) return;
  let info: string;
  try {
    info = await redis.info("cluster");
  } catch (error) {
    // One that does not tell is used as it is.
    if (error instanceof Error && error.name === "ReplyError") return;
    throw error;
  }
  if (!/^cluster_enabled:1/m.test(info)) return;
  const { host = "localhost", port = DEFAULT_PORT } = redis.options;
  throw new TurnqError("config", `the Redis at ${host}:${port} is a node of a cluster`, {
    where: "REDIS_URL",
    hint: `Write redis+cluster://${host}:${port}, with more of its nodes behind commas; in code an ioredis Cluster will do too.`,
  });
}
