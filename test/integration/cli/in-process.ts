import { EventEmitter } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { runCommandLine } from "../../../src/cli/command-line.ts";
import type { SignalSource } from "../../../src/cli/interruption.ts";
import { TextSink } from "../../unit/cli/text-sink.ts";
import { until } from "./cli-folder.ts";

class Signals extends EventEmitter implements SignalSource {}

/** What a command came to. */
export interface Told {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface InProcessOptions {
  /** Whether stdin and stderr are a terminal. */
  readonly terminal?: boolean | undefined;
  /** What is typed, or piped in. */
  readonly input?: string | undefined;
  /** Ends the command with SIGINT when it has said this, on either stream. */
  readonly endAfter?: string | undefined;
  readonly env?: Readonly<Record<string, string>> | undefined;
}

/** The command line in a folder, in this process: a tenth of what a process of its own costs. */
export class InProcess {
  readonly dir: string;
  readonly #redisUrl: string;

  private constructor(dir: string, redisUrl: string) {
    this.dir = dir;
    this.#redisUrl = redisUrl;
  }

  static async make(redisUrl: string, name = "turnq-cli-"): Promise<InProcess> {
    return new InProcess(await mkdtemp(join(tmpdir(), name)), redisUrl);
  }

  async run(argv: readonly string[], options: InProcessOptions = {}): Promise<Told> {
    const { terminal = false, input, endAfter, env } = options;
    const [stdout, stderr] = [new TextSink({ isTTY: terminal }), new TextSink({ isTTY: terminal })];
    const signals = new Signals();
    const stdin = Object.assign(Readable.from(input === undefined ? [] : [Buffer.from(input)]), { isTTY: terminal });
    const { PATH = "" } = process.env;
    let ended = false;
    const code = runCommandLine({
      argv,
      env: { PATH, REDIS_URL: this.#redisUrl, ...env },
      cwd: this.dir,
      stdin,
      stdout,
      stderr,
      signals,
      exit: () => undefined,
    }).finally(() => (ended = true));
    if (endAfter !== undefined) {
      await until(`"${endAfter}"`, () => ended || `${stdout.text}${stderr.text}`.includes(endAfter));
      signals.emit("SIGINT", "SIGINT");
    }
    return { code: await code, stdout: stdout.text, stderr: stderr.text };
  }

  async write(name: string, content: string | object): Promise<void> {
    await writeFile(join(this.dir, name), typeof content === "string" ? content : JSON.stringify(content));
  }

  async read(name: string): Promise<string> {
    return readFile(join(this.dir, name), "utf8");
  }

  async remove(): Promise<void> {
    await rm(this.dir, { recursive: true, force: true, maxRetries: 5 });
  }
}
