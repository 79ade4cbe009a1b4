import type { Readable } from "node:stream";
import { CommanderError } from "commander";
import { isTurnqError } from "../domain/error.ts";
import { askTerminal } from "./ask.ts";
import type { CommandContext } from "./context.ts";
import { errorText, EXIT, exitCodeOf } from "./failure-text.ts";
import { Interruption, type SignalSource } from "./interruption.ts";
import { Output, type TextStream } from "./output.ts";
import { chosenCommand } from "./program.ts";
import { CommandLines } from "./type-next.ts";

/** What the command line needs of its process. */
export interface CommandProcess {
  /** Without the program's own name. */
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly stdin: Readable & { readonly isTTY?: boolean | undefined };
  readonly stdout: TextStream;
  readonly stderr: TextStream;
  readonly signals: SignalSource;
  /** Ends the process at once: for a second signal. */
  readonly exit: (code: number) => void;
}

/** Runs the command line and answers the exit code, when all that it printed has been taken over. Never rejects. */
export async function runCommandLine(own: CommandProcess): Promise<number> {
  const output = new Output(own.stdout, own.stderr);
  let interruption: Interruption | undefined;
  const interruptible = (): Interruption => (interruption ??= new Interruption(own.signals, own.exit));
  const code = await codeOf(own, output, interruptible, () => interruption?.signal.aborted === true);
  try {
    await output.flush();
    return code;
  } catch (error) {
    output.note(errorText(error, false));
    return code === EXIT.ok ? EXIT.usage : code;
  }
}

async function codeOf(
  own: CommandProcess,
  output: Output,
  interruptible: () => Interruption,
  interrupted: () => boolean,
): Promise<number> {
  const { argv, env, cwd, stdin } = own;
  try {
    const chosen = await chosenCommand(argv, {
      out: (text) => void output.line(text.trimEnd()),
      err: (text) => output.note(text.trimEnd()),
    });
    if (chosen === undefined) return EXIT.usage;
    // Only now, since `--help` needs none of the configuration's schemas.
    const [{ settingsOf }] = await Promise.all([import("../config.ts"), output.prepareLive()]);
    const settings = settingsOf(env);
    const lines = new CommandLines(settings.startedByNpm ? "npx turnq" : "turnq");
    const ask = atTerminal(own) ? (question: string) => askTerminal(stdin, own.stderr, question) : undefined;
    const context: CommandContext = {
      output,
      settings,
      env,
      cwd,
      stdin,
      argv,
      lines,
      interruptible,
      ask,
      now: Date.now,
    };
    return await chosen(context);
  } catch (error) {
    return await told(error, own, output, interrupted());
  }
}

/** Whether somebody reads a question and can answer it, wherever the results go. */
function atTerminal({ stdin, stderr }: CommandProcess): boolean {
  return stdin.isTTY === true && stderr.isTTY === true;
}

async function told(error: unknown, own: CommandProcess, output: Output, interrupted: boolean): Promise<number> {
  // Commander has printed what it has to say.
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
  output.live("");
  if (interrupted && isAbort(error)) {
    output.note("stopped before anything was stored");
    return EXIT.cancelled;
  }
  // Loaded only here, since it comes with the whole queue.
  const { asTurnqError } = await import("../turnq.ts");
  const known = isTurnqError(error) ? error : asTurnqError(error);
  output.note(errorText(known, own.env["TURNQ_LOG_LEVEL"] === "debug"));
  return interrupted ? EXIT.cancelled : exitCodeOf(known);
}

/** True for what the reading of an input throws when it is told to stop. */
function isAbort(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return error.name === "AbortError" || isAbort(error.cause);
}
