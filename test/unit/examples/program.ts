import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

/** The folder of the examples, ending with a slash. */
export const EXAMPLES = fileURLToPath(new URL("../../../examples/", import.meta.url));

/** One line of an agent's stdout. */
export type Line = Readonly<Record<string, unknown>> & { readonly type: string };

/** How a program ended, and all that it wrote. */
export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A program that runs as turnq would run it: in its own group, in its folder, with an allow-listed environment. */
export interface Running {
  readonly pid: number;
  readonly ended: Promise<Ended>;
  /** The first line that fits, as soon as it is there; rejects when the program ends without it. */
  lineWhere(fits: (line: Line) => boolean): Promise<Line>;
}

/** Lines of the protocol; throws on anything else. */
export function linesOf(stdout: string): Line[] {
  return stdout
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Line);
}

/** Starts `command` in `folder` of the examples and gives it `request` as its one line of stdin. */
export function startProgram(
  folder: string,
  command: readonly string[],
  request: { turn?: string; attempt?: number; input: unknown; options?: Record<string, unknown> },
  env: Record<string, string> = {},
): Running {
  const [program = "", ...args] = command;
  const child = spawn(program === "node" ? process.execPath : program, args, {
    cwd: `${EXAMPLES}${folder}`,
    env: { PATH: process.env["PATH"] ?? "", ...env },
    detached: true,
    stdio: ["pipe", "pipe", "pipe"],
  });
  let stdout = "";
  let stderr = "";
  const watchers = new Set<() => void>();
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
    for (const look of watchers) look();
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  child.stdin.on("error", () => {});
  const line = { turn: "b:s:a:1", attempt: 1, history: [], limits: {}, options: {}, ...request };
  child.stdin.end(`${JSON.stringify(line)}\n`);
  const ended = new Promise<Ended>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code, signal) => resolve({ code, signal, stdout, stderr }));
  });
  const lineWhere = (fits: (line: Line) => boolean): Promise<Line> =>
    new Promise((resolve, reject) => {
      const look = (): void => {
        const found = linesOf(stdout.slice(0, stdout.lastIndexOf("\n") + 1)).find(fits);
        if (found === undefined) return;
        watchers.delete(look);
        resolve(found);
      };
      watchers.add(look);
      look();
      void ended.then(() => reject(new Error(`ended without the line: ${stdout}${stderr}`)));
    });
  return { pid: child.pid ?? 0, ended, lineWhere };
}

/** Does `each` for every item, at most four at a time. */
export async function forAll<T>(items: readonly T[], each: (item: T) => Promise<void>): Promise<void> {
  const waiting = [...items];
  const lane = async (): Promise<void> => {
    for (let item = waiting.shift(); item !== undefined; item = waiting.shift()) await each(item);
  };
  await Promise.all([lane(), lane(), lane(), lane()]);
}

/** True while a process of this id exists and is not a zombie of ours. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
