// Makes a clone ready to run: packages, build, redis-server. Installs only what is missing, says what it
// does and why, and is safe to run twice, or by several at once. It has no dependencies, since it installs them.
//
//   node scripts/setup.mjs                          everything (npm start and npm test begin with it)
//   node scripts/setup.mjs --redis-only --dir DIR   only redis-server, into DIR/.turnq/tools/redis
//
// Exit codes: 0 all there, 1 something cannot be installed here (the last lines say what to type), 2 bad usage.
import { createHash } from "node:crypto";
import { accessSync, constants, existsSync, linkSync, mkdirSync, readdirSync } from "node:fs";
import { readFileSync, renameSync, rmSync, statSync, unlinkSync, writeFileSync } from "node:fs";
import { spawnSync } from "node:child_process";
import { homedir } from "node:os";
import { delimiter, dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { canFetchRedis, fetchRedis } from "./fetch-redis.mjs";

const NODE_MIN = [20, 19];
const root = dirname(dirname(fileURLToPath(import.meta.url)));

class SetupError extends Error {}

function say(line) {
  console.log(`set-up: ${line}`);
}

function readArguments() {
  try {
    const { values } = parseArgs({ options: { "redis-only": { type: "boolean" }, dir: { type: "string" } } });
    return { redisOnly: values["redis-only"] === true, dir: resolve(values.dir ?? root) };
  } catch (error) {
    console.error(`${error.message}\nUsage: node scripts/setup.mjs [--redis-only] [--dir DIR]`);
    process.exit(2);
  }
}

function checkNode() {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  if (major > NODE_MIN[0] || (major === NODE_MIN[0] && minor >= NODE_MIN[1])) return;
  throw new SetupError(`Node ${NODE_MIN.join(".")} or newer is needed; this is ${process.versions.node}.`);
}

// --- packages ---------------------------------------------------------------------------------------------

/** What must be installed: the lock file, for this kind of machine (native packages differ). */
function lockStamp() {
  const lock = readFileSync(join(root, "package-lock.json"));
  return `${createHash("sha256").update(lock).digest("hex")} ${process.platform}-${process.arch}\n`;
}

function packagesMissing() {
  const stampFile = join(root, "node_modules/.turnq-lock");
  if (!existsSync(join(root, "node_modules"))) return "node_modules is missing";
  if (readText(stampFile) === lockStamp()) return undefined;
  if (!installedAsLocked()) return "node_modules was not installed from this package-lock.json";
  // Somebody ran npm install: what npm itself noted is what the lock file wants.
  writeFileSync(stampFile, lockStamp());
  return undefined;
}

function installedAsLocked() {
  const noted = readText(join(root, "node_modules/.package-lock.json"));
  if (noted === undefined) return false;
  const installed = JSON.parse(noted).packages;
  const wanted = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")).packages;
  return Object.entries(wanted).every(
    ([path, entry]) =>
      path === "" ||
      (installed[path] === undefined ? entry.optional === true : installed[path].version === entry.version),
  );
}

function installPackages(reason) {
  say(`installing packages with npm ci (${reason})`);
  const env = { ...process.env };
  const cache = env.npm_config_cache ?? join(homedir(), ".npm");
  if (!writable(cache)) {
    env.npm_config_cache = join(root, ".turnq/cache/npm");
    say(`npm's cache is kept in .turnq/cache/npm (${cache} cannot be written)`);
  }
  // No dependency needs its install script, so none is run. NODE_ENV must not leave out the compiler.
  const options = ["ci", "--include=dev", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
  const npm = env.npm_execpath;
  const own = npm !== undefined && /npm-cli\.c?js$/.test(npm);
  run(own ? process.execPath : "npm", own ? [npm, ...options] : options, { env, what: "npm ci" });
  writeFileSync(join(root, "node_modules/.turnq-lock"), lockStamp());
}

// --- build ------------------------------------------------------------------------------------------------

async function buildMissing() {
  const { sourceDigest } = await import("./digest.mjs");
  const built = readText(join(root, "dist/.digest"));
  if (built === undefined) return "dist is missing";
  return built === sourceDigest(root) ? undefined : "the sources have changed";
}

function build(reason) {
  say(`building dist (${reason})`);
  run(process.execPath, [join(root, "scripts/build.mjs")], { what: "the build" });
}

// --- redis ------------------------------------------------------------------------------------------------

function redisMissing(dir) {
  const names = ["redis-server", "valkey-server"];
  const folders = (process.env.PATH ?? "").split(delimiter).filter((folder) => folder !== "");
  const candidates = folders.flatMap((folder) => names.map((name) => join(folder, name)));
  candidates.push(join(dir, ".turnq/tools/redis/redis-server"));
  return candidates.some(executable) ? undefined : "neither redis-server nor valkey-server is on PATH";
}

function installRedis(dir, reason) {
  if (!canFetchRedis()) {
    if (process.env.REDIS_URL !== undefined) {
      say(`no redis-server of its own (${reason}); REDIS_URL is used`);
      return;
    }
    throw new SetupError(`redis-server is missing (${reason}). ${redisCommand()}`);
  }
  say(`fetching redis-server from the distribution into ${join(dir, ".turnq/tools/redis")} (${reason})`);
  const version = fetchRedis(join(dir, ".turnq/tools"), say);
  say(`redis-server is ready: ${version}`);
}

function redisCommand() {
  const install =
    process.platform === "darwin" ? "brew install redis" : "install redis-server with your package manager";
  const file = relative(process.cwd(), join(root, "docker-compose.yml"));
  const compose = file === "docker-compose.yml" ? "docker compose" : `docker compose -f ${file}`;
  return `Type: ${install}\nor use a container: ${compose} up -d && export REDIS_URL=redis://127.0.0.1:6379`;
}

// --- one at a time ----------------------------------------------------------------------------------------

/** Runs `work` while no other set-up works on `dir`. A lock whose process is dead is taken over. */
async function alone(dir, work) {
  const folder = join(dir, ".turnq");
  const lock = join(folder, "setup.lock");
  const mine = join(folder, `setup.lock.${process.pid}`);
  mkdirSync(folder, { recursive: true });
  writeFileSync(mine, String(process.pid));
  process.on("exit", () => rmSync(mine, { force: true }));
  for (let told = false; !linked(mine, lock); told = true) {
    if (!told) say("waiting for another set-up of this folder");
    breakStaleLock(lock, `${mine}.stale`);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100);
  }
  try {
    await work();
  } finally {
    rmSync(lock, { force: true });
  }
}

function linked(from, to) {
  try {
    linkSync(from, to);
    return true;
  } catch (error) {
    if (error.code === "EEXIST") return false;
    throw error;
  }
}

function breakStaleLock(lock, aside) {
  const holder = readText(lock);
  if (holder === undefined || alive(Number(holder))) return;
  try {
    renameSync(lock, aside);
  } catch {
    return; // another waiter was first
  }
  // Between the look and the move the lock may have become a live one: then it goes back.
  if (readText(aside) !== holder) linked(aside, lock);
  unlinkSync(aside);
}

function alive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === "EPERM";
  }
}

// --- files and programs -----------------------------------------------------------------------------------

function readText(file) {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return undefined;
  }
}

function executable(file) {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}

function writable(folder) {
  try {
    mkdirSync(folder, { recursive: true });
    accessSync(folder, constants.W_OK);
    // A cache that root once filled has folders that nobody else can write.
    return readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .every((entry) => isWritable(join(folder, entry.name)));
  } catch {
    return false;
  }
}

function isWritable(folder) {
  try {
    accessSync(folder, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

function run(program, argv, { env = process.env, what }) {
  const { status, signal, error } = spawnSync(program, argv, {
    cwd: root,
    env,
    stdio: ["ignore", "inherit", "inherit"],
  });
  if (error !== undefined) throw new SetupError(`${what} could not be started: ${error.message}`);
  if (status !== 0) throw new SetupError(`${what} failed (${signal ?? `exit code ${status}`}).`);
}

// --- main -------------------------------------------------------------------------------------------------

async function main() {
  const { redisOnly, dir } = readArguments();
  checkNode();
  // npm puts no lock file into a package.
  const clone = existsSync(join(root, "package-lock.json"));
  if (!redisOnly && !clone) throw new SetupError("this is an installed package: only --redis-only applies to it.");
  const all = async (act) => {
    if (!redisOnly) {
      const packages = packagesMissing();
      if (packages !== undefined && act(packages, installPackages)) return true;
      const stale = await buildMissing();
      if (stale !== undefined && act(stale, build)) return true;
    }
    const redis = redisMissing(dir);
    return redis !== undefined && act(redis, (reason) => installRedis(dir, reason));
  };
  // First a look without the lock: mostly nothing is missing, and then this must cost nothing.
  const missing = await all(() => true);
  if (!missing) return;
  await alone(dir, () =>
    all((reason, install) => {
      install(reason);
      return false;
    }),
  );
}

try {
  await main();
} catch (error) {
  if (!(error instanceof SetupError) && error?.code !== "ERR_FETCH_REDIS") throw error;
  console.log(`set-up failed: ${error.message}`);
  if (error.code === "ERR_FETCH_REDIS") console.log(redisCommand());
  process.exitCode = 1;
}
