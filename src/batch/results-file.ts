import { randomBytes } from "node:crypto";
import { writeSync } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { mkdir, open, readdir, realpath, rename, stat, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { TurnqError, isTurnqError, messageOf } from "../domain/error.ts";
import { resultCsv, resultCsvHead } from "./result-csv.ts";
import type { ResultLine } from "./result-line.ts";

/** What waits in memory before `append` makes its caller wait, in bytes. */
const PENDING_MAX_BYTES = 1024 * 1024;

/** The forms of results. */
export type ResultFormat = "jsonl" | "csv";

/** What stands before the first line. */
export function headText(format: ResultFormat): string | undefined {
  return format === "csv" ? resultCsvHead() : undefined;
}

/** A result line as text. One of CSV may hold newlines, within quotes. */
export function lineText(line: ResultLine, format: ResultFormat): string {
  return format === "csv" ? resultCsv(line) : JSON.stringify(line);
}

/**
 * A file of result lines that only ever holds whole lines. That each cell is in it once is up to
 * whoever appends.
 */
export interface ResultsFile {
  readonly path: string;
  /** False for what cannot be written anew: a pipe, `/dev/stdout`. */
  readonly replaceable: boolean;
  /** Resolves when more may be given; rejects when a line could not be written. */
  append(line: ResultLine): Promise<void>;
  /** Everything on the disk. May be called twice. Rejects when a line could not be written. */
  close(): Promise<void>;
}

/**
 * Writes `settled` (what the ledger holds) to a temporary file beside `path`, renames it to `path`,
 * and goes on appending there. Until the rename the old file stands; whoever dies before it leaves
 * the old one whole. What is not a regular file (a pipe, `/dev/stdout`) is written to as it is.
 * Throws {@link TurnqError} `file` when the place cannot be written to.
 */
export async function openResultsFile(
  path: string,
  settled: AsyncIterable<ResultLine> | Iterable<ResultLine>,
  format: ResultFormat = "jsonl",
): Promise<ResultsFile> {
  try {
    await makeFolder(dirname(path));
    const target = await placeOf(path);
    return target.special
      ? await fill(new LineFile(path, await open(path, "a"), false, format), settled)
      : await replace(path, target.real, settled, format);
  } catch (error) {
    if (isTurnqError(error)) throw error;
    throw cannotWrite(path, error);
  }
}

/**
 * Throws {@link TurnqError} `file` when results could not be written there: before anything is done whose results they
 * are. It makes the folder, and leaves what stands at the place as it is. Without a path it does nothing.
 */
export async function probeResultsFile(path: string | undefined): Promise<void> {
  if (path === undefined) return;
  try {
    await makeFolder(dirname(path));
    const { real, special } = await placeOf(path);
    const facts = special ? await stat(real) : undefined;
    if (facts?.isDirectory() === true) throw new Error("it is a folder");
    // To open a pipe and close it again would end whoever reads it.
    if (facts !== undefined && !facts.isCharacterDevice()) return;
    await tryToWrite(facts === undefined ? temporaryBeside(real) : real, facts === undefined);
  } catch (error) {
    throw cannotWrite(path, error);
  }
}

async function tryToWrite(path: string, isNew: boolean): Promise<void> {
  const file = await open(path, isNew ? "wx" : "a");
  try {
    // Also of no bytes: a full device refuses them, and `file.write` would not ask it.
    writeSync(file.fd, Buffer.alloc(isNew ? 1 : 0));
  } finally {
    await file.close();
    if (isNew) await unlink(path);
  }
}

function temporaryBeside(path: string): string {
  return join(dirname(path), `.${basename(path)}.${process.pid}.${randomBytes(4).toString("hex")}.tmp`);
}

function cannotWrite(path: string, error: unknown): TurnqError {
  return new TurnqError("file", `the results cannot be written: ${messageOf(error)}`, { where: path, cause: error });
}

/** Makes a folder and those that it is in. One by one: Node's recursive mkdir never ends where none can be made (/proc). */
async function makeFolder(folder: string): Promise<void> {
  const missing: string[] = [];
  for (let at = folder; !(await isThere(at)) && dirname(at) !== at; at = dirname(at)) missing.push(at);
  for (const part of missing.toReversed()) {
    await mkdir(part).catch((error: unknown) => {
      // Another process may have been first.
      if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
    });
  }
}

async function isThere(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
}

/** Where a path leads: a link stays a link, and what it leads to is replaced. */
async function placeOf(path: string): Promise<{ real: string; special: boolean }> {
  try {
    const real = await realpath(path);
    return { real, special: !(await stat(real)).isFile() };
  } catch (error) {
    if (isMissing(error)) return { real: path, special: false };
    throw error;
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ENOENT";
}

async function replace(
  path: string,
  real: string,
  settled: AsyncIterable<ResultLine> | Iterable<ResultLine>,
  format: ResultFormat,
): Promise<ResultsFile> {
  await removeLeftOvers(real);
  const temporary = temporaryBeside(real);
  const lines = new LineFile(path, await open(temporary, "wx"), true, format);
  try {
    await fill(lines, settled);
    await lines.flush(true);
    await rename(temporary, real);
  } catch (error) {
    await lines.close().catch(() => undefined);
    await unlink(temporary).catch(() => undefined);
    throw error;
  }
  return lines;
}

async function fill(lines: LineFile, settled: AsyncIterable<ResultLine> | Iterable<ResultLine>): Promise<ResultsFile> {
  for await (const line of settled) await lines.append(line);
  return lines;
}

/** Temporary files of processes that died before the rename. */
async function removeLeftOvers(real: string): Promise<void> {
  const start = `.${basename(real)}.`;
  for (const name of await readdir(dirname(real))) {
    const [, pid] = name.startsWith(start) ? (/^(\d+)\.[0-9a-f]{8}\.tmp$/.exec(name.slice(start.length)) ?? []) : [];
    if (pid !== undefined && !isAlive(Number(pid))) await unlink(join(dirname(real), name)).catch(() => undefined);
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "EPERM";
  }
}

class LineFile implements ResultsFile {
  readonly path: string;
  readonly replaceable: boolean;
  readonly #file: FileHandle;
  readonly #format: ResultFormat;
  #pending: string[];
  #pendingBytes = 0;
  #writing: Promise<void> = Promise.resolve();
  #failure: TurnqError | undefined;
  #closing: Promise<void> | undefined;

  constructor(path: string, file: FileHandle, replaceable: boolean, format: ResultFormat) {
    this.path = path;
    this.replaceable = replaceable;
    this.#file = file;
    this.#format = format;
    const head = headText(format);
    this.#pending = head === undefined ? [] : [`${head}\n`];
  }

  async append(line: ResultLine): Promise<void> {
    if (this.#closing !== undefined) throw new TurnqError("closed", "the results file is closed", { where: this.path });
    this.#throwFailure();
    const text = `${lineText(line, this.#format)}\n`;
    this.#pending.push(text);
    this.#pendingBytes += text.length;
    const writing = this.#write();
    if (this.#pendingBytes > PENDING_MAX_BYTES) await writing;
    this.#throwFailure();
  }

  /** Everything given so far is in the file, with `sync` also on the disk. Rejects when it is not. */
  async flush(sync = false): Promise<void> {
    await this.#write();
    this.#throwFailure();
    // A pipe has no disk to be on.
    if (sync && (await this.#file.stat()).isFile()) await this.#file.sync();
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    try {
      await this.flush(true);
    } finally {
      await this.#file.close();
    }
  }

  #throwFailure(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** One write at a time; lines that come meanwhile go together into the next. Never rejects: the failure is kept. */
  #write(): Promise<void> {
    this.#writing = this.#writing.then(() => this.#writePending());
    return this.#writing;
  }

  async #writePending(): Promise<void> {
    if (this.#pending.length === 0 || this.#failure !== undefined) return;
    const text = this.#pending.join("");
    this.#pending = [];
    this.#pendingBytes = 0;
    let before: number | undefined;
    try {
      const facts = await this.#file.stat();
      before = facts.isFile() ? facts.size : undefined;
      await this.#file.appendFile(text);
    } catch (error) {
      this.#failure = new TurnqError("file", `the results cannot be written: ${messageOf(error)}`, {
        where: this.path,
        cause: error,
      });
      // A full disk may have taken half a line.
      if (before !== undefined) await this.#file.truncate(before).catch(() => undefined);
    }
  }
}
