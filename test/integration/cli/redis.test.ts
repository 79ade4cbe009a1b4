import { mkdir, symlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { Redis } from "ioredis";
import { afterEach, beforeEach, expect, test } from "vitest";
import { freePort } from "../../../src/redis/server.ts";
import { CliFolder, jsonLines, until } from "./cli-folder.ts";

let folder: CliFolder;
beforeEach(async () => {
  folder = await CliFolder.make();
  await folder.write("one.jsonl", '{"input": "hello"}\n');
});
afterEach(async () => {
  await folder.remove();
});

test("A11: Redis cannot be reached: exit 3, with the time that was waited, and no password", async () => {
  const env = { REDIS_URL: `redis://:secret@127.0.0.1:${await freePort()}` };
  const commands = [
    ["run", "one.jsonl", "--agent", "echo"],
    ["submit", "one.jsonl", "--agent", "echo"],
    ["work"],
    ["results", "b"],
  ];
  for (const { code, stdout, stderr } of await Promise.all(commands.map((command) => folder.run(command, { env })))) {
    expect({ code, stdout }).toEqual({ code: 3, stdout: "" });
    expect(stderr).toMatch(/cannot be reached .*5000 ms/);
    expect(stderr).not.toContain("secret");
  }
});

test("redis prints a URL that works, and lets the server go at a signal", async () => {
  const command = folder.start(["redis"]);
  await until("the URL", () => command.stdout.endsWith("\n"));
  const redis = new Redis(command.stdout.trim());
  expect(await redis.ping()).toBe("PONG");
  redis.disconnect();
  await command.saidOnStderr("{turnq:NAME}");
  command.signal("SIGINT");
  expect((await command.ended).code).toBe(0);
});

test("doctor: all is well, and what is wrong with a configuration", async () => {
  const well = await folder.run(["doctor", "--json"]);
  expect(well.code).toBe(0);
  const checks = jsonLines(well.stdout);
  expect(checks.every(({ type, ok }) => type === "check" && ok === true)).toBe(true);
  expect(checks.map(({ name }) => name)).toEqual([
    "node",
    "redis-server",
    "configuration",
    "redis",
    "redis version",
    "redis appendonly",
    "redis appendfsync",
    "redis maxmemory-policy",
    "redis append-only file",
    "redis memory",
    "redis evicted keys",
    "redis clock",
  ]);
  const agents = {
    fine: { type: "command", command: ["sh", "-c", "true"] },
    typo: { type: "command", command: ["./no-such-program"] },
    gone: { type: "module", module: "./no-such-module.mjs" },
    keyless: { type: "chat", baseUrl: "http://127.0.0.1:9/v1", model: "m", apiKeyEnv: "NO_SUCH_KEY" },
  };
  await folder.write("agents.json", JSON.stringify({ agents }));
  const unable = await folder.run(["doctor", "--config", "agents.json", "--json"]);
  const found = jsonLines(unable.stdout).filter(({ name }) => String(name).startsWith("agent "));
  expect(unable.code).toBe(1);
  expect(found.map(({ name, ok }) => [name, ok])).toEqual([
    ["agent fine", true],
    ["agent typo", false],
    ["agent gone", false],
    ["agent keyless", false],
  ]);
  for (const [at, what] of [
    [1, "no-such-program does not exist"],
    [2, "no-such-module.mjs does not exist"],
    [3, "NO_SUCH_KEY"],
  ] as const)
    expect(found[at]?.["found"]).toContain(what);
  await folder.write("turnq.config.json", '{"agents": {"a": {"type": "echo", "lane": "no:lane"}}}');
  const ill = await folder.run(["doctor"]);
  expect(ill.code).toBe(1);
  expect(ill.stdout).toMatch(/^bad {2}configuration: .*agents\.a\.lane/m);
});

test("doctor and run without a redis-server name what fetches one", async () => {
  const bin = join(folder.dir, "bin");
  await mkdir(bin);
  await symlink(process.execPath, join(bin, "node"));
  const env = { PATH: bin };
  const doctor = await folder.run(["doctor"], { env });
  // A clone that fetched a server finds that one.
  const fetched = /^ok {3}redis-server: /m.test(doctor.stdout);
  expect(doctor.code).toBe(fetched ? 0 : 1);
  const run = await folder.run(["run", "one.jsonl", "--agent", "echo"], { env });
  expect(run.code).toBe(fetched ? 0 : 3);
  if (!fetched) for (const { stdout, stderr } of [doctor, run]) expect(stdout + stderr).toContain("turnq doctor --fix");
  const wrong = await folder.run(["run", "one.jsonl", "--agent", "echo"], {
    env: { TURNQ_REDIS_SERVER: dirname(bin) },
  });
  expect(wrong).toMatchObject({ code: 3, stderr: expect.stringContaining("is not an executable file") });
});
