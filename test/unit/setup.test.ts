import { execFile, spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { chmod, cp, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, expect, test } from "vitest";
import { z } from "zod";

const SETUP = join(process.cwd(), "scripts/setup.mjs");
let dir = "";
let bin = "";

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "turnq-test-"));
  bin = join(dir, "bin");
  await mkdir(bin);
});
afterEach(() => rm(dir, { recursive: true, force: true }));

async function program(name: string, body: string): Promise<void> {
  const file = join(bin, name);
  await writeFile(file, `#!/bin/sh\nPATH=/usr/bin:/bin\n${body}\n`);
  await chmod(file, 0o755);
}

/**
 * A distribution whose archive is made of shell scripts: redis-server is a link into redis-tools, which lacks two
 * libraries. Calls are written to a file. It shows what the set-up does with apt, not that an archive has redis.
 */
async function distribution(options: { broken?: boolean } = {}): Promise<void> {
  await program(
    "apt-get",
    `
echo "apt-get $*" >> "${dir}/calls"
case "$*" in
  *download*) for name; do :; done; : > "\${name}_1.0_all.deb" ;;
esac`,
  );
  await program(
    "apt-cache",
    `
for name; do :; done
case "$name" in
  redis-server|redis-tools|libone1|libssl3t64) echo "  Candidate: 1.0" ;;
  *) echo "  Candidate: (none)" ;;
esac`,
  );
  await program(
    "dpkg-deb",
    `
[ "$1" = -x ] || exit 0
mkdir -p "$3/usr/bin" "$3/usr/lib/x86_64-linux-gnu"
case "$2" in
  */redis-tools_*) printf '#!/bin/sh\\n${options.broken === true ? "exit 127" : "echo Redis server v=9 $LD_LIBRARY_PATH"}\\n' > "$3/usr/bin/redis-check-rdb"
    chmod +x "$3/usr/bin/redis-check-rdb" ;;
  */redis-server_*) ln -s redis-check-rdb "$3/usr/bin/redis-server" ;;
  */libone1_*) : > "$3/usr/lib/x86_64-linux-gnu/libone.so.1" ;;
  */libssl3t64_*) : > "$3/usr/lib/x86_64-linux-gnu/libssl.so.3" ;;
esac`,
  );
  await program(
    "ldd",
    `
libraries="\${1%/bin/*}/lib/x86_64-linux-gnu"
for name in libone.so.1 libssl.so.3; do
  [ -e "$libraries/$name" ] && echo "	$name => $libraries/$name (0x1)" || echo "	$name => not found"
done`,
  );
}

function setup(
  argv: readonly string[],
  env: Record<string, string> = {},
  script = SETUP,
): { status: number | null; output: string } {
  const run = spawnSync(process.execPath, [script, ...argv], { env: { PATH: bin, ...env }, encoding: "utf8" });
  return { status: run.status, output: run.stdout + run.stderr };
}

const redisOnly = (): string[] => ["--redis-only", "--dir", dir];

test("with a redis-server on PATH there is nothing to do or to say", async () => {
  await program("valkey-server", "exit 0");
  expect(setup(redisOnly())).toEqual({ status: 0, output: "" });
  expect(existsSync(join(dir, ".turnq"))).toBe(false);
});

test.skipIf(process.platform !== "linux")(
  "on Debian redis-server is fetched, with the libraries that are missing",
  async () => {
    await distribution();
    const first = setup(redisOnly());
    expect(first).toMatchObject({ status: 0 });
    expect(first.output).toContain("neither redis-server nor valkey-server is on PATH");
    expect(first.output).toContain("unpacking libone1 (for libone.so.1)");
    expect(first.output).toContain("unpacking libssl3t64 (for libssl.so.3)");
    const server = join(dir, ".turnq/tools/redis/redis-server");
    const run = spawnSync(server, ["--version"], { encoding: "utf8" });
    expect(run.stdout).toContain(join(dir, ".turnq/tools/redis/root/usr/lib/x86_64-linux-gnu"));
    // Nothing but the server stays, and the second time there is nothing to do.
    expect(readdirSync(join(dir, ".turnq"))).toEqual(["tools"]);
    expect(readdirSync(join(dir, ".turnq/tools"))).toEqual(["redis"]);
    expect(setup(redisOnly())).toEqual({ status: 0, output: "" });
  },
);

test.skipIf(process.platform !== "linux")("several set-ups at once fetch it once", async () => {
  await distribution();
  const run = promisify(execFile);
  const runs = Array.from({ length: 4 }, () => run(process.execPath, [SETUP, ...redisOnly()], { env: { PATH: bin } }));
  const outputs = (await Promise.all(runs)).map(({ stdout }) => stdout);
  expect(outputs.filter((text) => text.includes("redis-server is ready"))).toHaveLength(1);
});

test.skipIf(process.platform !== "linux")("a redis-server that does not run is not left there", async () => {
  await distribution({ broken: true });
  const { status, output } = setup(redisOnly());
  expect(status).toBe(1);
  expect(output).toContain("set-up failed: the fetched redis-server failed");
  expect(output).toContain("docker compose up -d");
  expect(readdirSync(join(dir, ".turnq/tools"))).toEqual([]);
});

test.skipIf(process.platform !== "linux")("what a killed set-up left is cleared away, also its lock", async () => {
  await distribution();
  const dead = spawnSync(process.execPath, ["-e", ""]).pid;
  await mkdir(join(dir, ".turnq/tools/.fetch-1/debs"), { recursive: true });
  await writeFile(join(dir, ".turnq/setup.lock"), String(dead));
  expect(setup(redisOnly())).toMatchObject({ status: 0 });
  expect(readdirSync(join(dir, ".turnq"))).toEqual(["tools"]);
  expect(readdirSync(join(dir, ".turnq/tools"))).toEqual(["redis"]);
});

test("elsewhere it names what to type and exits 1; with REDIS_URL it goes on", async () => {
  await symlink(process.execPath, join(bin, "node"));
  const without = setup(redisOnly());
  expect(without.status).toBe(1);
  expect(without.output).toContain("redis-server is missing");
  expect(without.output).toContain("docker compose up -d");
  const withUrl = setup(redisOnly(), { REDIS_URL: "redis://127.0.0.1:6379" });
  expect(withUrl).toMatchObject({ status: 0, output: expect.stringContaining("REDIS_URL is used") });
});

test("the installed package has all that fetching redis-server needs, and does nothing else", async () => {
  const { files } = z.object({ files: z.array(z.string()) }).parse(JSON.parse(readFileSync("package.json", "utf8")));
  await mkdir(join(dir, "scripts"));
  for (const file of files.filter((name) => name.startsWith("scripts/"))) await cp(file, join(dir, file));
  await program("redis-server", "exit 0");
  const run = (argv: string[]): ReturnType<typeof setup> => setup(argv, {}, join(dir, "scripts/setup.mjs"));
  expect(run(redisOnly())).toEqual({ status: 0, output: "" });
  expect(run([])).toMatchObject({ status: 1, output: expect.stringContaining("only --redis-only") });
});

test("the lock file names every package that another one wants: npm ci refuses it otherwise", () => {
  const Lock = z.object({
    packages: z.record(
      z.string(),
      z.object({
        version: z.string().optional(),
        dependencies: z.record(z.string(), z.string()).optional(),
        optionalDependencies: z.record(z.string(), z.string()).optional(),
      }),
    ),
  });
  const { packages } = Lock.parse(JSON.parse(readFileSync("package-lock.json", "utf8")));
  const names = new Set(Object.keys(packages).map((path) => path.slice(path.lastIndexOf("node_modules/") + 13)));
  const wanted = Object.values(packages).flatMap((entry) => [
    ...Object.keys(entry.dependencies ?? {}),
    ...Object.keys(entry.optionalDependencies ?? {}),
  ]);
  expect([...new Set(wanted)].filter((name) => !names.has(name))).toEqual([]);
  expect(Object.entries(packages).filter(([, entry]) => entry.version === undefined)).toEqual([]);
});

test("bad usage exits 2", () => {
  expect(setup(["--redis"])).toMatchObject({
    status: 2,
    output: expect.stringContaining("Usage: node scripts/setup.mjs"),
  });
});
