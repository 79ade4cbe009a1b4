import type { RedisCheck } from "./doctor.ts";

/** Settings that are asked for by CONFIG GET. */
export const READ_SETTINGS = [
  "appendonly",
  "appendfsync",
  "maxmemory-policy",
  "maxmemory",
  "min-replicas-to-write",
] as const;

/** What a Redis says of itself: its settings, else what INFO says of the same. */
export interface Facts {
  readonly appendonly: string | undefined;
  readonly policy: string | undefined;
  setting(name: (typeof READ_SETTINGS)[number]): string | undefined;
  info(field: string): string | undefined;
}

export function factsOf(info: string, settings: Readonly<Record<string, string | undefined>>): Facts {
  const fields = new Map(
    info.split(/\r?\n/).flatMap((line): [string, string][] => {
      const colon = line.indexOf(":");
      return colon > 0 ? [[line.slice(0, colon), line.slice(colon + 1)]] : [];
    }),
  );
  const enabled = fields.get("aof_enabled");
  return {
    // A hosted Redis has no CONFIG, but INFO says these two.
    appendonly: settings["appendonly"] ?? (enabled === undefined ? undefined : enabled === "1" ? "yes" : "no"),
    policy: settings["maxmemory-policy"] ?? fields.get("maxmemory_policy"),
    setting: (name) => settings[name],
    info: (field) => fields.get(field),
  };
}

/** Of the memory that is allowed, the share from which it is nearly full. */
const NEARLY_FULL = 0.9;
/** A difference of clocks that makes instants hard to read, in ms. Leases and delays go by Redis's clock alone. */
const SKEW_MS = 5000;

/** What is wrong with a Redis now, beside its settings. What it does not tell is not listed. */
export function checkHealth(facts: Facts, skewMs: number | undefined): RedisCheck[] {
  return [checkAof(facts), checkMemory(facts), checkEvicted(facts), checkReplicas(facts), checkClock(skewMs)].filter(
    (check) => check !== undefined,
  );
}

function checkAof(facts: Facts): RedisCheck | undefined {
  if (facts.info("aof_enabled") !== "1") return undefined;
  const write = facts.info("aof_last_write_status") ?? "ok";
  const rewrite = facts.info("aof_last_bgrewrite_status") ?? "ok";
  const ok = write === "ok" && rewrite === "ok";
  return {
    name: "append-only file",
    ok,
    severity: write === "ok" ? "warning" : "error",
    found: ok ? "ok" : `last write ${write}, last rewrite ${rewrite}`,
    wanted: "ok",
    hint: ok ? "" : "Is the disk full or broken? Redis's own log says why.",
  };
}

function checkMemory(facts: Facts): RedisCheck | undefined {
  const [used, allowed] = [Number(facts.info("used_memory")), Number(facts.info("maxmemory"))];
  if (!Number.isFinite(used) || !Number.isFinite(allowed)) return undefined;
  const share = allowed === 0 ? 0 : used / allowed;
  const ok = share < NEARLY_FULL;
  return {
    name: "memory",
    ok,
    severity: "warning",
    found: allowed === 0 ? `${megabytes(used)}, no maxmemory` : `${megabytes(used)} of ${megabytes(allowed)}`,
    wanted: `less than ${NEARLY_FULL * 100} % of maxmemory`,
    hint: ok
      ? ""
      : "A full Redis refuses turns, and Results wait in their workers. Raise maxmemory or keep turns for less time.",
  };
}

function checkEvicted(facts: Facts): RedisCheck | undefined {
  const evicted = facts.info("evicted_keys");
  if (evicted === undefined) return undefined;
  const ok = evicted === "0";
  const hint = ok ? "" : "Since its start this Redis has dropped keys for want of memory; they may have been turns.";
  return { name: "evicted keys", ok, severity: "error", found: evicted, wanted: "0", hint };
}

function checkReplicas(facts: Facts): RedisCheck | undefined {
  const count = Number(facts.info("connected_slaves") ?? "0");
  if (facts.info("role") === "slave")
    return {
      name: "role",
      ok: false,
      severity: "error",
      found: "replica",
      wanted: "primary",
      hint: "A replica takes no turn. Name the primary.",
    };
  if (!(count > 0)) return undefined;
  const needed = facts.setting("min-replicas-to-write");
  const ok = needed !== undefined && needed !== "0";
  return {
    name: "min-replicas-to-write",
    ok,
    severity: "warning",
    found: needed ?? "not readable",
    wanted: "1 or more where there are replicas",
    hint: ok
      ? ""
      : `It has ${count === 1 ? "a replica" : `${count} replicas`}: a failover loses what none of them had yet. With min-replicas-to-write 1 a primary that is cut off soon accepts no more.`,
  };
}

function checkClock(skewMs: number | undefined): RedisCheck | undefined {
  if (skewMs === undefined) return undefined;
  const ok = Math.abs(skewMs) <= SKEW_MS;
  return {
    name: "clock",
    ok,
    severity: "warning",
    found: `${Math.abs(skewMs)} ms ${skewMs < 0 ? "behind" : "ahead of"} Redis`,
    wanted: `within ${SKEW_MS} ms`,
    hint: ok
      ? ""
      : "Leases and delays go by Redis's clock, but instants in records by this machine's. Set the clocks by NTP.",
  };
}

function megabytes(bytes: number): string {
  return `${(bytes / 1024 / 1024).toFixed(1)} MB`;
}
