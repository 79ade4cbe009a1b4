import { existsSync } from "node:fs";
import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { findRedisServer, packageRoot } from "../../../src/redis/binary.ts";

let dir = "";
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "turnq-test-"));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

async function program(path: string, mode = 0o755): Promise<string> {
  const file = join(dir, path);
  await mkdir(join(file, ".."), { recursive: true });
  await writeFile(file, "#!/bin/sh\n");
  await chmod(file, mode);
  return file;
}

test("PATH is looked through in its order, for redis-server and valkey-server", async () => {
  const valkey = await program("a/valkey-server");
  await program("b/redis-server");
  expect(findRedisServer({ pathEnv: [join(dir, "none"), join(dir, "a"), join(dir, "b")].join(delimiter) })).toBe(
    valkey,
  );
});

test("what is no executable file is passed over", async () => {
  await program("a/redis-server", 0o644);
  await mkdir(join(dir, "b/redis-server"), { recursive: true });
  const good = await program("c/redis-server");
  expect(findRedisServer({ pathEnv: ["a", "b", "c"].map((name) => join(dir, name)).join(delimiter) })).toBe(good);
});

test("what the set-up fetched is found after PATH", async () => {
  const fetched = await program("project/.turnq/tools/redis/redis-server");
  expect(findRedisServer({ pathEnv: "", dirs: [join(dir, "project")] })).toBe(fetched);
  const onPath = await program("bin/redis-server");
  expect(findRedisServer({ pathEnv: join(dir, "bin"), dirs: [join(dir, "project")] })).toBe(onPath);
});

test("an explicit path is taken, and is an error where it cannot be run", async () => {
  const mine = await program("my redis");
  expect(findRedisServer({ pathEnv: undefined, explicit: mine })).toBe(mine);
  expect(() => findRedisServer({ pathEnv: "/usr/bin", explicit: join(dir, "none") })).toThrow(
    expect.objectContaining({ code: "redis_missing" }),
  );
});

test("the package's root is the folder of package.json", () => {
  expect(existsSync(join(packageRoot(), "package.json"))).toBe(true);
});
