import { TurnqError, type ErrorCode } from "../domain/error.ts";
import { failure, type Failure } from "../domain/failure.ts";

/** A process that could not be started or did not do its part. `failure` is what the attempt's record says of it. */
export class ProcessFailure extends TurnqError {
  override readonly name = "ProcessFailure";
  readonly failure: Failure;

  constructor(code: ErrorCode, what: Failure, cause?: unknown) {
    super(code, what.message, cause === undefined ? {} : { cause });
    this.failure = what;
  }
}

/**
 * The error of a start that failed. A full machine (no more processes or files) is overloaded: the turn spends nothing and
 * comes again when the lane's gate opens, or a worker that can start nothing would fail turns faster than others run them.
 * A wrong program is a wrong config.
 */
export function startFailure(program: string, error: unknown): ProcessFailure {
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  if (code === "EMFILE" || code === "ENFILE" || code === "EAGAIN" || code === "ENOMEM") {
    const what = `cannot start ${program}: the machine has no more processes or open files to give (${code})`;
    return new ProcessFailure("internal", failure("overloaded", what), error);
  }
  const what = `cannot start ${program}${code === "" ? "" : ` (${code})`}`;
  return new ProcessFailure("config", failure("config", what, { cause: error }), error);
}

/** The failure of programs that held more memory than they may, in MiB. */
export function outOfMemory(usedMb: number, limitMb: number): ProcessFailure {
  const what = `its processes held ${usedMb} MB of memory together, over limits.maxMemoryMb of ${limitMb}, and were killed`;
  return new ProcessFailure("agent_crash", failure("out_of_memory", what));
}

/** How a process ended, in words: a signal is named, since its exit code is null and null is not 0. */
export function endText(end: { readonly code: number | null; readonly signal: NodeJS.Signals | null }): string {
  if (end.signal === "SIGKILL") return "was killed by SIGKILL (maybe out of memory)";
  if (end.signal !== null) return `was killed by ${end.signal}`;
  return `exited with code ${end.code ?? "unknown"}`;
}
