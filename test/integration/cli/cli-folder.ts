import { spawn, type ChildProcessByStdio } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { isProcessAlive } from "../../agents.ts";
import { commandHere } from "./in-process.ts";

const MAIN = join(process.cwd(), "dist/src/cli/main.js");
/** How long a condition is waited for, in ms: far beyond what a slow machine needs. */
const WAIT_MS = 60_000;

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface StartOptions {
  /** What stdin holds; it is empty unless given. "open" leaves it open. */
  readonly input?: string | undefined;
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** The program, where it is not the built one of this project. */
  readonly main?: string | undefined;
  /** Leaves stdout to the test: nothing reads it. */
  readonly ownStdout?: boolean | undefined;
}

/** One run of the command line, in a process group of its own. */
export class Command {
  readonly child: ChildProcessByStdio<Writable, Readable, Readable>;
  readonly ended: Promise<Ended>;
  stdout = "";
  stderr = "";

  constructor(dir: string, args: readonly string[], options: StartOptions) {
    const { PATH = "", HOME = "" } = process.env;
    this.child = spawn(process.execPath, [options.main ?? MAIN, ...args], {
      cwd: dir,
      env: { PATH, HOME, ...options.env },
      stdio: ["pipe", "pipe", "pipe"],
      detached: true,
    });
    if (options.ownStdout !== true)
      this.child.stdout.setEncoding("utf8").on("data", (text: string) => (this.stdout += text));
    this.child.stderr.setEncoding("utf8").on("data", (text: string) => (this.stderr += text));
    this.child.stdin.on("error", () => undefined);
    if (options.input !== "open") this.child.stdin.end(options.input ?? "");
    this.ended = new Promise((resolve) => {
      this.child.once("close", (code, signal) => resolve({ code, signal, stdout: this.stdout, stderr: this.stderr }));
    });
  }

  /** Resolves when stderr has this text; rejects when the command ended without it. */
  async saidOnStderr(text: string): Promise<void> {
    await until(`"${text}" on stderr`, () => {
      if (this.stderr.includes(text)) return true;
      if (this.child.exitCode !== null) throw new Error(`the command ended without "${text}":\n${this.stderr}`);
      return false;
    });
  }

  /** Sends a signal to the command alone. */
  signal(name: NodeJS.Signals): void {
    this.child.kill(name);
  }

  /** SIGKILL to the command and whatever is in its process group. */
  async killHard(): Promise<Ended> {
    if (this.child.pid !== undefined && this.child.exitCode === null && this.child.signalCode === null) {
      process.kill(-this.child.pid, "SIGKILL");
    }
    return this.ended;
  }
}

/** A temporary working folder with an embedded Redis of its own. */
export class CliFolder {
  readonly dir: string;
  readonly #commands: Command[] = [];

  private constructor(dir: string) {
    this.dir = dir;
  }

  static async make(): Promise<CliFolder> {
    return new CliFolder(await mkdtemp(join(tmpdir(), "turnq-cli-")));
  }

  start(args: readonly string[], options: StartOptions = {}): Command {
    const command = new Command(this.dir, args, options);
    this.#commands.push(command);
    return command;
  }

  /**
   * Runs a command to its end: in this process, which takes a tenth of the time; in one of its own where the program is
   * another one, and where `start` is used.
   */
  async run(args: readonly string[], options: StartOptions = {}): Promise<Ended> {
    return options.main === undefined
      ? { signal: null, ...(await commandHere(this.dir, args, options)) }
      : this.start(args, options).ended;
  }

  async write(name: string, content: string | Uint8Array): Promise<void> {
    await writeFile(join(this.dir, name), content);
  }

  /** The text of a file; "" when there is none. */
  async read(name: string): Promise<string> {
    return readFile(join(this.dir, name), "utf8").catch(() => "");
  }

  /** Keeps the embedded Redis up until the folder is removed; answers its URL and the server's process. */
  async keepRedis(): Promise<{ readonly url: string; readonly pid: number }> {
    const command = this.start(["redis", "--json"]);
    await until(
      "the URL of the embedded Redis",
      () => command.stdout.includes("\n") || command.child.exitCode !== null,
    );
    return JSON.parse(command.stdout) as { url: string; pid: number };
  }

  /** Ends every command, the embedded Redis and its keeper, and takes the folder away. */
  async remove(): Promise<void> {
    await Promise.all(this.#commands.map((command) => command.killHard()));
    const log = await this.read(".turnq/redis/keeper.log");
    const pids = [...log.matchAll(/keeper (\d+):|, pid (\d+)/g)].map((match) => Number(match[1] ?? match[2]));
    // A keeper whose folder has gone ends its server and itself.
    await rm(this.dir, { recursive: true, force: true, maxRetries: 5 });
    await until("the end of the embedded Redis", () => !pids.some(isProcessAlive));
  }
}

/** Waits for a condition. */
export async function until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  for (const givenUpAt = Date.now() + WAIT_MS; ;) {
    if (await holds()) return;
    if (Date.now() > givenUpAt) throw new Error(`waited in vain for ${what}`);
    await sleep(20);
  }
}

/** A JSON object as the tests look into it. */
export type Line = Record<string, unknown> & { readonly type?: string };

/** The objects of a text of JSON lines. Throws when a line is none. */
export function jsonLines(text: string): Line[] {
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Line);
}

/** The samples of the result lines among these, sorted. */
export function samplesOf(lines: readonly Line[]): string[] {
  const samples = lines.flatMap((line) => (line.type === "result" ? [String(line["sample"])] : []));
  return samples.toSorted();
}

/** A file of turns. */
export function turnsFile(lines: readonly object[]): string {
  return lines.map((line) => `${JSON.stringify(line)}\n`).join("");
}

/**
 * A configuration with one agent `step`. Each run appends a line `TURN ATTEMPT` to runs.log. By its
 * input: `wait` says "half" and waits for the file `go`; `crash once` dies in its first attempt;
 * `fail` fails; `work` answers at once.
 */
export const STEP_CONFIG = JSON.stringify({
  agents: {
    step: {
      type: "command",
      command: ["sh", "step.sh"],
      output: "events",
      limits: { timeoutMs: 120_000, graceMs: 2500 },
      retry: { maxAttempts: 3, backoff: { delayMs: 1 } },
    },
  },
});

export const STEP_AGENT = `read -r line
turn=$(printf '%s' "$line" | sed 's/.*"turn":"\\([^"]*\\)".*/\\1/')
attempt=$(printf '%s' "$line" | sed 's/.*"attempt":\\([0-9]*\\).*/\\1/')
printf '%s %s\\n' "$turn" "$attempt" >> runs.log
printf '{"type":"text","text":"half"}\\n{"type":"usage","inputTokens":3,"outputTokens":%s}\\n' "$attempt"
case "$line" in
  *'"input":"wait'*) while [ ! -e go ]; do sleep 0.05; done ;;
  *'"input":"crash once'*) [ "$attempt" = 1 ] && kill -9 $$ ;;
  *'"input":"fail'*) [ -e mended ] || { printf '{"type":"error","message":"it failed","code":"agent_error","retryable":false}\\n'; exit 0; } ;;
esac
printf '{"type":"result","output":"answer %s"}\\n' "$attempt"
`;

/** A folder with the agent `step` and its configuration. */
export async function stepFolder(): Promise<CliFolder> {
  const folder = await CliFolder.make();
  await folder.write("turnq.config.json", STEP_CONFIG);
  await folder.write("step.sh", STEP_AGENT);
  return folder;
}
