// Fetches redis-server from the distribution's own archive on Debian and Ubuntu, as any user, into a folder of
// its own: lists, cache and packages are kept there, and nothing of the system is changed.
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** The server is a link into the second package, so both are needed. */
const SERVERS = [
  { server: "redis-server", packages: ["redis-server", "redis-tools"] },
  { server: "valkey-server", packages: ["valkey-server", "valkey-tools"] },
];

/** Packages whose names do not follow from the library's; the others are named for library and version. */
const PACKAGE_OF = {
  "libssl.so.3": ["libssl3", "libssl3t64"],
  "libcrypto.so.3": ["libssl3", "libssl3t64"],
  "libgcc_s.so.1": ["libgcc-s1"],
  "liblua5.1-cjson.so.0": ["lua-cjson"],
  "liblua5.1-bitop.so.0": ["lua-bitop"],
};

class FetchError extends Error {
  code = "ERR_FETCH_REDIS";
}

/** Whether this machine has Debian's tools. */
export function canFetchRedis() {
  if (process.platform !== "linux") return false;
  return ["apt-get", "apt-cache", "dpkg-deb"].every((tool) => run(tool, ["--version"]).status === 0);
}

/**
 * Puts a redis-server that runs into `tools`/redis and returns what `--version` says. The caller sees to it that
 * one process at a time does this for one folder. All or nothing: the folder appears by one rename.
 */
export function fetchRedis(tools, say) {
  mkdirSync(tools, { recursive: true });
  for (const name of readdirSync(tools)) {
    if (name.startsWith(".fetch-")) rmSync(join(tools, name), { recursive: true, force: true });
  }
  const work = join(tools, `.fetch-${process.pid}`);
  try {
    return fetchInto(work, join(tools, "redis"), say);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

function fetchInto(work, destination, say) {
  const apt = prepareApt(work);
  say("reading the distribution's package lists");
  must(apt.get(["update", "-qq"]), "apt-get update");

  const redis = join(work, "redis");
  const files = join(redis, "root");
  mkdirSync(files, { recursive: true });
  const chosen = SERVERS.find(({ packages }) => packages.every((name) => apt.knows(name)));
  if (chosen === undefined) throw new FetchError("the distribution has neither redis-server nor valkey-server.");
  say(`unpacking ${chosen.packages.join(" and ")}`);
  for (const name of chosen.packages) apt.unpack(name, files);

  const binary = join(files, "usr/bin", chosen.server);
  addLibraries(apt, binary, files, say);
  const wrapper = join(redis, "redis-server");
  writeFileSync(wrapper, wrapperScript(files, chosen.server));
  chmodSync(wrapper, 0o755);
  const version = must(run(wrapper, ["--version"]), "the fetched redis-server").stdout.trim();

  rmSync(destination, { recursive: true, force: true });
  renameSync(redis, destination);
  return version;
}

/** apt with state of its own. The system's configuration still says which archive, proxy and keys to use. */
function prepareApt(work) {
  const folders = { lists: join(work, "lists"), cache: join(work, "cache"), debs: join(work, "debs") };
  for (const folder of [join(folders.lists, "partial"), join(folders.cache, "archives/partial"), folders.debs]) {
    mkdirSync(folder, { recursive: true });
  }
  const configuration = join(work, "apt.conf");
  writeFileSync(
    configuration,
    [
      // Hooks of the system (which clean its caches, or fill others) are no business of ours.
      "#clear APT::Update::Pre-Invoke;",
      "#clear APT::Update::Post-Invoke;",
      "#clear APT::Update::Post-Invoke-Success;",
      `Dir::State::lists "${folders.lists}";`,
      `Dir::Cache "${folders.cache}";`,
      'APT::Sandbox::User "";',
      'Acquire::Languages "none";',
      'Acquire::Retries "2";',
      'Acquire::http::Timeout "30";',
      'Acquire::https::Timeout "30";',
    ].join("\n") + "\n",
  );
  const get = (argv) => run("apt-get", ["-c", configuration, ...argv], { cwd: folders.debs });
  const knows = (name) => {
    const { status, stdout } = run("apt-cache", ["-c", configuration, "policy", name]);
    return status === 0 && /Candidate: (?!\(none\))\S/.test(stdout);
  };
  const unpack = (name, into) => {
    must(get(["download", "-qq", name]), `apt-get download ${name}`);
    for (const file of readdirSync(folders.debs)) {
      if (!file.startsWith(`${name}_`)) continue;
      must(run("dpkg-deb", ["-x", join(folders.debs, file), into]), `dpkg-deb -x ${file}`);
    }
  };
  return { get, knows, unpack };
}

/** Adds the shared libraries that this machine lacks, until the loader finds all. */
function addLibraries(apt, binary, files, say) {
  const tried = new Set();
  for (;;) {
    const missing = missingLibraries(binary, files);
    const next = missing.find((library) => !tried.has(library));
    if (next === undefined) {
      if (missing.length > 0) throw new FetchError(`no package was found for ${missing.join(", ")}.`);
      return;
    }
    tried.add(next);
    const name = packagesFor(next).find((candidate) => apt.knows(candidate));
    if (name === undefined) continue;
    say(`unpacking ${name} (for ${next})`);
    apt.unpack(name, files);
  }
}

function missingLibraries(binary, files) {
  const env = { ...process.env, LC_ALL: "C", LD_LIBRARY_PATH: libraryFolders(files).join(":") };
  const { stdout } = must(run("ldd", [binary], { env }), "ldd");
  return [...stdout.matchAll(/^\s*(\S+) => not found/gm)].map((match) => match[1]);
}

/** Debian's rule: libNAME.so.VERSION is in libNAMEVERSION, with a hyphen between after a digit; t64 on newer ones. */
function packagesFor(library) {
  const named = PACKAGE_OF[library];
  if (named !== undefined) return named;
  const [base, version = ""] = library.toLowerCase().replaceAll("_", "-").split(".so.");
  const joint = /\d$/.test(base) ? "-" : "";
  const name = `${base}${joint}${version}`;
  return [name, `${name}t64`];
}

function libraryFolders(files) {
  const folders = [];
  for (const base of [join(files, "usr/lib"), join(files, "lib")]) {
    if (!existsSync(base)) continue;
    for (const entry of readdirSync(base, { withFileTypes: true })) {
      if (entry.isDirectory() && entry.name.includes("-linux-")) folders.push(join(base, entry.name));
    }
    folders.push(base);
  }
  return folders;
}

/** Finds its files beside itself, so that the project's folder can be moved. */
function wrapperScript(files, server) {
  const libraries = libraryFolders(files).map((folder) => `$here/root${folder.slice(files.length)}`);
  return [
    "#!/bin/sh",
    'here=$(cd -- "${0%/*}" && pwd)',
    `LD_LIBRARY_PATH="${libraries.join(":")}\${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"`,
    "export LD_LIBRARY_PATH",
    `exec "$here/root/usr/bin/${server}" "$@"`,
    "",
  ].join("\n");
}

function run(program, argv, options = {}) {
  return spawnSync(program, argv, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"], ...options });
}

function must(result, what) {
  if (result.status === 0) return result;
  const why = result.error?.message ?? (result.stderr.trim() || result.signal || `exit code ${result.status}`);
  throw new FetchError(`${what} failed: ${why}`);
}
