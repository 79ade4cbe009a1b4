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

/** The error of a start that failed: a full machine (no more processes or files) is worth another try, a wrong program is not. */
export function startFailure(program: string, error: unknown): ProcessFailure {
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  if (code === "EMFILE" || code === "ENFILE" || code === "EAGAIN" || code === "ENOMEM") {
    const what = `cannot start ${program}: the machine has no more processes or open files to give (${code})`;
    return new ProcessFailure("internal", failure("internal", what, { retryable: true }), error);
  }
  const what = `cannot start ${program}${code === "" ? "" : ` (${code})`}`;
  return new ProcessFailure("config", failure("config", what, { cause: error }), error);
}

/** How a process ended, in words: a signal is named, since its exit code is null and null is not 0. */
export function endText(end: { readonly code: number | null; readonly signal: NodeJS.Signals | null }): string {
  if (end.signal === "SIGKILL") return "was killed by SIGKILL (maybe out of memory)";
  if (end.signal !== null) return `was killed by ${end.signal}`;
  return `exited with code ${end.code ?? "unknown"}`;
}
