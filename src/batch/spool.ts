import { randomUUID } from "node:crypto";
import type { FileHandle } from "node:fs/promises";
import { mkdir, open, unlink } from "node:fs/promises";
import { join, resolve } from "node:path";
import { TurnqError, messageOf } from "../domain/error.ts";
import type { OpenInput } from "./input.ts";

/** An input that can be read more than once. `remove` gives back what it holds and may be called twice. */
export interface ReadableInput {
  readonly open: OpenInput;
  /** True when somebody has written to it since it was opened: what was read before may not be what is read now. */
  readonly changed: () => Promise<boolean>;
  readonly remove: () => Promise<void>;
}

/**
 * Keeps a stream in a file in `dir`, which nobody else may read, so that it can be read twice. The
 * file has no name any more when this resolves: whatever happens to the process, nothing is left.
 */
export async function spool(source: AsyncIterable<Uint8Array>, dir: string): Promise<ReadableInput> {
  await mkdir(dir, { recursive: true });
  const path = join(dir, `input-${randomUUID()}.spool`);
  const file = await open(path, "wx+", 0o600);
  try {
    await unlink(path);
    for await (const chunk of source) await writeAll(file, chunk);
  } catch (error) {
    await file.close();
    throw new TurnqError("file", `the input could not be kept in ${dir}: ${messageOf(error)}`, { cause: error });
  }
  let closing: Promise<void> | undefined;
  return {
    open: () => readFrom(file),
    changed: () => Promise.resolve(false),
    remove: () => (closing ??= file.close()),
  };
}

async function writeAll(file: FileHandle, chunk: Uint8Array): Promise<void> {
  for (let at = 0; at < chunk.length;) at += (await file.write(chunk, at)).bytesWritten;
}

const READ_BYTES = 64 * 1024;

/** Reads at positions of its own, so that several readers of one file do not disturb each other. */
async function* readFrom(file: FileHandle): AsyncGenerator<Uint8Array, void, undefined> {
  for (let position = 0; ;) {
    const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(READ_BYTES), 0, READ_BYTES, position);
    if (bytesRead === 0) return;
    position += bytesRead;
    yield buffer.subarray(0, bytesRead);
  }
}

/**
 * The input that a path names: a regular file as it is; anything that can be read only once (a
 * FIFO, a terminal, `<(…)` of a shell) is kept by {@link spool} first, as is `stdin` for `-`.
 * Throws {@link TurnqError} `file` when there is no such file.
 */
export async function openInput(
  path: string,
  options: {
    readonly stdin: AsyncIterable<Uint8Array>;
    readonly spoolDir: string;
    /** What a relative path stands on; the process's folder unless given. */
    readonly cwd?: string | undefined;
  },
): Promise<ReadableInput> {
  if (path === "-") return spool(options.stdin, options.spoolDir);
  const file = await openFile(path, options.cwd);
  const facts = await file.stat();
  if (facts.isDirectory()) {
    await file.close();
    throw new TurnqError("file", "is a folder, not a file of turns", { where: path });
  }
  if (facts.isFile()) {
    let closing: Promise<void> | undefined;
    return {
      open: () => readFrom(file),
      changed: async () => {
        const now = await file.stat();
        return now.size !== facts.size || now.mtimeMs !== facts.mtimeMs;
      },
      remove: () => (closing ??= file.close()),
    };
  }
  try {
    return await spool(file.createReadStream({ autoClose: false }), options.spoolDir);
  } finally {
    await file.close();
  }
}

async function openFile(path: string, cwd = "."): Promise<FileHandle> {
  try {
    return await open(resolve(cwd, path), "r");
  } catch (error) {
    throw new TurnqError("file", `cannot be read: ${messageOf(error)}`, { where: path, cause: error });
  }
}
