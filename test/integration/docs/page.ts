import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { accessSync, constants, readFileSync } from "node:fs";
import { chmod, mkdir, symlink, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { createServer, type AddressInfo } from "node:net";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { redisBinary } from "../../redis.ts";
import { CliFolder, until } from "../cli/cli-folder.ts";

/** A fenced block of a page: its language, and what stands after it. */
export interface Snippet {
  readonly page: string;
  /** Of the line that opens it, from 1. */
  readonly line: number;
  readonly language: string;
  readonly marks: readonly string[];
  readonly text: string;
}

/** The fenced blocks of a page, in their order. */
export function snippetsOf(page: string): Snippet[] {
  const found: Snippet[] = [];
  const lines = readFileSync(page, "utf8").split("\n");
  for (let at = 0; at < lines.length; at += 1) {
    const opening = /^```(.*)$/.exec(lines[at] ?? "");
    if (opening === null) continue;
    const end = lines.indexOf("```", at + 1);
    if (end < 0) throw new Error(`${page}:${at + 1}: the block is not closed`);
    const [language = "", ...marks] = (opening[1] ?? "").split(" ");
    found.push({ page, line: at + 1, language, marks, text: `${lines.slice(at + 1, end).join("\n")}\n` });
    at = end;
  }
  return found;
}

const ROOT = process.cwd();
const JITI = join(dirname(createRequire(import.meta.url).resolve("jiti/package.json")), "lib/jiti-cli.mjs");

/**
 * A folder in which the snippets of a page are run one after the other, as a reader would: turnq is there as if it
 * were installed, unless the page installs it, and its embedded Redis is up. What is started in the background ends
 * with it.
 */
export class PageFolder {
  readonly #folder: CliFolder;
  readonly #env: NodeJS.ProcessEnv;
  readonly #port: string;
  readonly #background: ChildProcess[] = [];

  private constructor(folder: CliFolder, env: NodeJS.ProcessEnv, port: number) {
    this.#folder = folder;
    this.#env = env;
    this.#port = String(port);
  }

  static async make(): Promise<PageFolder> {
    const folder = await CliFolder.make();
    const inside = (...path: string[]): string => join(folder.dir, ...path);
    await mkdir(inside("node_modules"));
    await mkdir(inside("bin"));
    await symlink(ROOT, inside("node_modules/turnq"));
    for (const name of ["bullmq", "ioredis", "zod", "@types", "@hono", "@bull-board", "hono"])
      await symlink(join(ROOT, "node_modules", name), inside("node_modules", name));
    await symlink(join(ROOT, "examples"), inside("examples"));
    await writeFile(inside("package.json"), '{"type": "module"}\n');
    // What npx does, without its half a second.
    const main = join(ROOT, "dist/src/cli/main.js");
    const cases = `turnq) exec "${process.execPath}" "${main}" "$@" ;; jiti) exec "${process.execPath}" "${JITI}" "$@" ;;`;
    await writeFile(inside("bin/npx"), `#!/bin/sh\nname=$1; shift\ncase $name in ${cases} esac\nexit 127\n`);
    await chmod(inside("bin/npx"), 0o755);
    return PageFolder.#open(folder);
  }

  /** A folder with nothing in it, for a page that installs turnq: a `redis-server` is on the PATH, npm is set up as here. */
  static async empty(): Promise<PageFolder> {
    const folder = await CliFolder.make();
    const server = join(folder.dir, "bin/redis-server");
    await mkdir(dirname(server));
    await writeFile(server, `#!/bin/sh\nexec "${redisBinary()}" "$@"\n`);
    await chmod(server, 0o755);
    return PageFolder.#open(folder, { ...process.env, ...npmCache() });
  }

  static async #open(folder: CliFolder, more: NodeJS.ProcessEnv = {}): Promise<PageFolder> {
    const inside = (...path: string[]): string => join(folder.dir, ...path);
    const { PATH = "", HOME = "" } = process.env;
    const { url } = await folder.keepRedis();
    const env = { ...more, PATH: `${inside("bin")}:${PATH}`, HOME, REDIS_URL: url, PORT: "0", NO_COLOR: "1" };
    return new PageFolder(folder, env, await freePort());
  }

  /** The text as it is run: a page's port 8080 may be taken here. */
  #here(text: string): string {
    return text.replaceAll("8080", this.#port);
  }

  /** What its commands find in their environment. */
  get env(): NodeJS.ProcessEnv {
    return this.#env;
  }

  get dir(): string {
    return this.#folder.dir;
  }

  write(name: string, text: string): Promise<void> {
    return this.#folder.write(name, this.#here(text));
  }

  /** Runs commands; answers what they said, and how they ended. */
  async sh(text: string): Promise<{ readonly code: number | null; readonly said: string }> {
    return this.#ended("sh", ["-e", "-c", this.#here(text)]);
  }

  /** Runs a program in TypeScript. */
  async ts(name: string): Promise<{ readonly code: number | null; readonly said: string }> {
    return this.sh(`npx jiti ${name}`);
  }

  async #ended(program: string, args: readonly string[]) {
    const { child, said } = this.#start(program, args);
    const [code] = (await once(child, "close")) as [number | null];
    return { code, said: said() };
  }

  /** Starts commands that go on; resolves when they have said something. */
  async background(text: string): Promise<void> {
    const { child, said } = this.#start("sh", ["-c", this.#here(text)], true);
    this.#background.push(child);
    await until(`a word of: ${text}`, () => {
      if (child.exitCode !== null) throw new Error(`it ended with code ${child.exitCode}: ${text}\n${said()}`);
      return said() !== "";
    });
  }

  #start(program: string, args: readonly string[], detached = false) {
    const child = spawn(program, args, { cwd: this.dir, env: this.#env, stdio: ["ignore", "pipe", "pipe"], detached });
    let said = "";
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding("utf8").on("data", (chunk: string) => (said += chunk));
    return { child, said: () => said };
  }

  async remove(): Promise<void> {
    for (const child of this.#background) {
      if (child.pid === undefined || child.exitCode !== null) continue;
      const ended = once(child, "exit");
      process.kill(-child.pid, "SIGTERM");
      await ended;
    }
    await this.#folder.remove();
  }
}

/** npm's cache, where HOME cannot be written: the one of the set-up. */
function npmCache(): NodeJS.ProcessEnv {
  try {
    accessSync(homedir(), constants.W_OK);
    return {};
  } catch {
    return { npm_config_cache: join(ROOT, ".turnq/cache/npm") };
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  return port;
}
