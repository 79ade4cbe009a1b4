import { accessSync, constants, existsSync, statSync } from "node:fs";
import { delimiter, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { TurnqError } from "../domain/error.ts";

const NAMES = ["redis-server", "valkey-server"];
const FETCHED = join(".turnq", "tools", "redis", "redis-server");

/** Where to look for a redis-server. */
export interface RedisServerSearch {
  /** The text of `PATH`; undefined looks in no folder of it. */
  readonly pathEnv: string | undefined;
  /** A path that the user gave: nothing else is tried. */
  readonly explicit?: string | undefined;
  /** Project folders in which the set-up may have put one. */
  readonly dirs?: readonly string[] | undefined;
}

/**
 * The redis-server to use: the explicit one, else redis-server or valkey-server from PATH, else what the
 * set-up fetched into one of `dirs` or into this package's own folder.
 * @throws TurnqError `redis_missing` when the explicit path is not an executable file
 */
export function findRedisServer(search: RedisServerSearch): string | undefined {
  if (search.explicit !== undefined) {
    const path = resolve(search.explicit);
    if (isExecutableFile(path)) return path;
    throw new TurnqError("redis_missing", `${path} is not an executable file`);
  }
  const onPath = (search.pathEnv ?? "").split(delimiter).filter((folder) => folder !== "");
  const candidates = [
    ...onPath.flatMap((folder) => NAMES.map((name) => join(folder, name))),
    ...[...(search.dirs ?? []), packageRoot()].map((folder) => join(folder, FETCHED)),
  ];
  const found = candidates.find(isExecutableFile);
  return found === undefined ? undefined : resolve(found);
}

/** The folder of this package's package.json, from the sources and from the build alike. */
export function packageRoot(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, "package.json")) && dirname(folder) !== folder) folder = dirname(folder);
  return folder;
}

function isExecutableFile(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
