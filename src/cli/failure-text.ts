import { type ErrorCode, isTurnqError, messageOf } from "../domain/error.ts";
import { harmless } from "./harmless.ts";
import { withoutPasswords } from "../telemetry/passwords.ts";

/** What the process ends with. */
export const EXIT = { ok: 0, failed: 1, usage: 2, unavailable: 3, cancelled: 130 } as const;

const UNAVAILABLE: readonly ErrorCode[] = ["redis_unreachable", "redis_refused", "redis_missing", "wait_timeout"];
const OWN_FAULT: readonly ErrorCode[] = ["internal", "corrupt", "closed"];

/** The exit code for an error that ends a command. */
export function exitCodeOf(error: unknown): number {
  if (!isTurnqError(error)) return EXIT.failed;
  if (UNAVAILABLE.includes(error.code)) return EXIT.unavailable;
  return OWN_FAULT.includes(error.code) ? EXIT.failed : EXIT.usage;
}

/** What a person is told of an error: what, where, what to do. Escape sequences and control characters of what it quotes are left out. The stack only with `debug`. */
export function errorText(error: unknown, debug: boolean): string {
  const stack = debug && error instanceof Error && error.stack !== undefined ? `\n${error.stack}` : "";
  return harmless(withoutPasswords(`error: ${messageOf(error)}${stack}`));
}
