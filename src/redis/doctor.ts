import type { Redis } from "ioredis";
import { primaries } from "./cluster.ts";
import { checkHealth, factsOf, READ_SETTINGS } from "./doctor-health.ts";
import { DURABLE_SETTINGS, REDIS_VERSION_MIN, REDIS_VERSION_WAITAOF } from "./settings.ts";

/** One thing that `turnq doctor` looked at. */
export interface RedisCheck {
  readonly name: string;
  readonly ok: boolean;
  /** What a check that is not ok means: `error` work can be lost, `warning` know what you do. */
  readonly severity: "error" | "warning";
  readonly found: string;
  readonly wanted: string;
  /** What to do; "" when there is nothing to do. */
  readonly hint: string;
}

/** Asks a Redis, or every primary of a cluster, whether it keeps what it acknowledges. Rejects when it does not answer. */
export async function checkRedis(redis: Redis): Promise<RedisCheck[]> {
  const nodes = primaries(redis);
  if (nodes.length === 1 && nodes[0] === redis) return checkNode(redis);
  const found = await Promise.all(
    nodes.map(async (node) => (await checkNode(node)).map((check) => ({ node: shownNode(node), check }))),
  );
  return [await checkCluster(redis), ...merged(found.flat())];
}

/** One check for all nodes: the worst of them, which is named. */
function merged(found: readonly { readonly node: string; readonly check: RedisCheck }[]): RedisCheck[] {
  return [...new Set(found.map(({ check }) => check.name))].flatMap((name) => {
    const same = found.filter(({ check }) => check.name === name);
    const bad = same.filter(({ check }) => !check.ok);
    const worst = bad.find(({ check }) => check.severity === "error") ?? bad[0];
    return worst === undefined
      ? same.slice(0, 1).map(({ check }) => check)
      : [{ ...worst.check, found: `${worst.check.found} at ${worst.node}` }];
  });
}

function shownNode(node: Redis): string {
  return `${node.options.host ?? "localhost"}:${node.options.port ?? 6379}`;
}

async function checkCluster(redis: Redis): Promise<RedisCheck> {
  const state = /^cluster_state:(\S+)/m.exec(String(await redis.cluster("INFO")))?.[1] ?? "unknown";
  const hint = state === "ok" ? "" : "Lanes whose slots have no node wait: look at CLUSTER NODES.";
  return { name: "cluster", ok: state === "ok", severity: "error", found: state, wanted: "ok", hint };
}

async function checkNode(redis: Redis): Promise<RedisCheck[]> {
  const [info, ...settings] = await Promise.all([
    readInfo(redis),
    ...READ_SETTINGS.map((name) => readSetting(redis, name)),
  ]);
  const clock = await clockSkew(redis);
  const facts = factsOf(info, Object.fromEntries(READ_SETTINGS.map((name, i) => [name, settings[i]])));
  return [
    checkVersion(info),
    checkAppendonly(facts.appendonly),
    checkAppendfsync(facts.setting("appendfsync")),
    checkPolicy(facts.policy),
    ...checkHealth(facts, clock),
  ];
}

/** All of INFO; "" where it is not allowed. */
async function readInfo(redis: Redis): Promise<string> {
  try {
    return await redis.info();
  } catch (error) {
    if (error instanceof Error && error.name === "ReplyError") return "";
    throw error;
  }
}

/** How far this machine's clock is from Redis's, in ms, less what the question took; undefined when it does not tell. */
async function clockSkew(redis: Redis): Promise<number | undefined> {
  try {
    const before = Date.now();
    const [seconds, micros] = await redis.time();
    const middle = (before + Date.now()) / 2;
    return Math.round(middle - (Number(seconds) * 1000 + Number(micros) / 1000));
  } catch (error) {
    if (error instanceof Error && error.name === "ReplyError") return undefined;
    throw error;
  }
}

/** undefined where the server does not let its settings be read, as hosted ones do. */
async function readSetting(redis: Redis, name: string): Promise<string | undefined> {
  try {
    const reply = await redis.config("GET", name);
    // A flat list, or a map on a connection that was given to us with RESP3 replies.
    const value: unknown = Array.isArray(reply) ? reply[1] : Reflect.get(Object(reply), name);
    return typeof value === "string" ? value : undefined;
  } catch (error) {
    if (error instanceof Error && error.name === "ReplyError") return undefined;
    throw error;
  }
}

function checkVersion(info: string): RedisCheck {
  // Valkey gives 7.2.4 as redis_version for the sake of clients, whatever its own version.
  const version = /^redis_version:(\S+)/m.exec(info)?.[1];
  const valkey = /^valkey_version:(\S+)/m.exec(info)?.[1];
  const found = valkey === undefined ? (version ?? "unknown") : `valkey ${valkey}`;
  const ok = version !== undefined && isAtLeast(version, REDIS_VERSION_MIN);
  const waits = version !== undefined && isAtLeast(version, REDIS_VERSION_WAITAOF);
  return {
    name: "version",
    ok,
    severity: "error",
    found,
    wanted: `${REDIS_VERSION_MIN} or newer`,
    hint: ok
      ? waits
        ? ""
        : `${REDIS_VERSION_WAITAOF} or newer could also confirm writes to disk (WAITAOF).`
      : "Install a newer Redis or Valkey.",
  };
}

function checkAppendonly(found: string | undefined): RedisCheck {
  return checkSetting("appendonly", found, DURABLE_SETTINGS.appendonly, {
    severity: "error",
    hint: "A restart of this Redis forgets turns that it accepted. Start it with --appendonly yes.",
  });
}

function checkAppendfsync(found: string | undefined): RedisCheck {
  return checkSetting("appendfsync", found, DURABLE_SETTINGS.appendfsync, {
    severity: found === "everysec" ? "warning" : "error",
    hint:
      found === "everysec"
        ? "A killed Redis can lose its last second of writes, more on a slow disk. --appendfsync always loses none."
        : "A killed Redis can lose what it acknowledged. Start it with --appendfsync always.",
  });
}

function checkPolicy(found: string | undefined): RedisCheck {
  return checkSetting("maxmemory-policy", found, DURABLE_SETTINGS["maxmemory-policy"], {
    severity: "error",
    hint: "When memory is full this Redis drops turns without a word. Start it with --maxmemory-policy noeviction.",
  });
}

function checkSetting(
  name: string,
  found: string | undefined,
  wanted: string,
  otherwise: Pick<RedisCheck, "severity" | "hint">,
): RedisCheck {
  if (found === undefined) {
    const hint = `This Redis does not let its settings be read: look up ${name} where it is managed.`;
    return { name, ok: false, severity: "warning", found: "not readable", wanted, hint };
  }
  const ok = found === wanted;
  return { name, ok, severity: otherwise.severity, found, wanted, hint: ok ? "" : otherwise.hint };
}

function isAtLeast(version: string, wanted: string): boolean {
  const found = version.split(".").map(Number);
  for (const [index, part] of wanted.split(".").map(Number).entries()) {
    const have = found[index] ?? 0;
    if (have !== part) return have > part;
  }
  return true;
}
