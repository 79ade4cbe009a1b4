import { createHash } from "node:crypto";
import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";

/** The attempt that a folder is for. */
export interface FolderOwner {
  readonly store: string;
  readonly agent: string;
  readonly turn: string;
  readonly attempt: number;
}

/** A folder of an attempt's own, empty at first. */
export interface FreshFolder {
  readonly path: string;
  /** To be called when no process of the attempt is alive any more. Never rejects. */
  readonly remove: () => Promise<void>;
}

/**
 * Makes it in `.turnq/folders` of the config's folder, and removes what earlier attempts of the turn have left there: those
 * whose worker was killed could not. Their processes on this machine are dead when the next attempt starts.
 */
export async function freshFolder(baseDir: string, { store, agent, turn, attempt }: FolderOwner): Promise<FreshFolder> {
  const all = join(baseDir, ".turnq", "folders");
  const own = createHash("sha256").update(`${store}\n${agent}\n${turn}`).digest("hex").slice(0, 20);
  const path = join(all, `${own}-${attempt}`);
  await mkdir(all, { recursive: true });
  const left = (await readdir(all)).filter((name) => name.startsWith(`${own}-`));
  await Promise.all(left.map((name) => removed(join(all, name))));
  await mkdir(path);
  return { path, remove: () => removed(path).catch(() => undefined) };
}

function removed(path: string): Promise<void> {
  return rm(path, { recursive: true, force: true, maxRetries: 3 });
}
