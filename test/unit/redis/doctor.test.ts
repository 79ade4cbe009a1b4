import { afterEach, expect, test } from "vitest";
import { connect } from "../../../src/redis/connection.ts";
import { checkRedis } from "../../../src/redis/doctor.ts";
import { checkHealth, factsOf } from "../../../src/redis/doctor-health.ts";
import type { RedisCheck } from "../../../src/redis/doctor.ts";
import type { RedisServerOptions } from "../../../src/redis/server.ts";
import { throwAwayRedis } from "../../redis.ts";

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

async function check(options: Partial<RedisServerOptions> = {}, before: string[][] = []): Promise<RedisCheck[]> {
  const server = await throwAwayRedis(options);
  cleanups.push(() => server.stop());
  const redis = connect(server.url, "worker");
  cleanups.push(() => redis.disconnect());
  for (const [command = "", ...args] of before) await redis.call(command, ...args);
  return checkRedis(redis);
}

function named(checks: RedisCheck[], name: string): RedisCheck | undefined {
  return checks.find((one) => one.name === name);
}

test("a Redis that was started by us passes", async () => {
  const checks = await check();
  expect(checks.map((one) => [one.name, one.ok])).toEqual([
    ["version", true],
    ["appendonly", true],
    ["appendfsync", true],
    ["maxmemory-policy", true],
    ["append-only file", true],
    ["memory", true],
    ["evicted keys", true],
    ["clock", true],
  ]);
});

test("appendfsync everysec is a warning, no is an error", async () => {
  expect(named(await check({ appendfsync: "everysec" }), "appendfsync")).toMatchObject({
    ok: false,
    severity: "warning",
    found: "everysec",
    wanted: "always",
  });
  expect(named(await check({ appendfsync: "no" }), "appendfsync")).toMatchObject({ ok: false, severity: "error" });
});

test("A14: a Redis that evicts keys is an error with the flag to set", async () => {
  const policy = named(await check({ settings: { "maxmemory-policy": "allkeys-lru" } }), "maxmemory-policy");
  expect(policy).toMatchObject({ ok: false, severity: "error", found: "allkeys-lru", wanted: "noeviction" });
  expect(policy?.hint).toContain("--maxmemory-policy noeviction");
});

test("a Redis without an append-only file is an error", async () => {
  expect(named(await check({ settings: { appendonly: "no" } }), "appendonly")).toMatchObject({
    ok: false,
    severity: "error",
  });
});

test("settings that must not be read are warnings, not a failure of the check", async () => {
  const checks = await check({}, [["ACL", "SETUSER", "default", "-config"]]);
  expect(checks.filter((one) => !one.ok).map((one) => [one.name, one.severity, one.found])).toEqual([
    ["appendfsync", "warning", "not readable"],
  ]);
  // What INFO says of them stands in for the settings.
  expect(named(checks, "appendonly")).toMatchObject({ ok: true, found: "yes" });
  expect(named(checks, "maxmemory-policy")).toMatchObject({ ok: true, found: "noeviction" });
});

test.each([
  ["redis_version:6.0.16", false, "6.0.16"],
  ["redis_version:6.2.0", true, "6.2.0"],
  ["redis_version:7.0.15", true, "7.0.15"],
  ["redis_version:10.1.0", true, "10.1.0"],
  ["redis_version:7.2.4\r\nvalkey_version:8.1.0", true, "valkey 8.1.0"],
  ["", false, "unknown"],
])("version %j", async (info, ok, found) => {
  const fake = {
    info: () => Promise.resolve(info),
    config: () => Promise.resolve([]),
    time: () => Promise.resolve([0, 0]),
  } as unknown as Parameters<typeof checkRedis>[0];
  expect(named(await checkRedis(fake), "version")).toMatchObject({ ok, found });
});

test("memory that is nearly full, evicted keys, a failed write, replicas that are not needed, a clock far off", () => {
  const info = [
    "role:master",
    "connected_slaves:2",
    "used_memory:95",
    "maxmemory:100",
    "evicted_keys:3",
    "aof_enabled:1",
    "aof_last_write_status:err",
  ].join("\r\n");
  const found = checkHealth(factsOf(info, { "min-replicas-to-write": "0" }), -60_000);
  expect(found.map(({ name, ok, severity }) => [name, ok, severity])).toEqual([
    ["append-only file", false, "error"],
    ["memory", false, "warning"],
    ["evicted keys", false, "error"],
    ["min-replicas-to-write", false, "warning"],
    ["clock", false, "warning"],
  ]);
  expect(found.every(({ hint }) => hint !== "")).toBe(true);
  expect(checkHealth(factsOf("role:slave", {}), 0).map(({ name, ok }) => [name, ok])).toContainEqual(["role", false]);
});
