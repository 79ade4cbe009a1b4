import { pino } from "pino";
import { prettyFactory } from "pino-pretty";
import type { Log } from "./log.ts";
import { withoutPasswords } from "./passwords.ts";

/** How and where a process logs. */
export interface LogOptions {
  /** One of pino's levels, or `silent`. */
  readonly level: string;
  /** For people instead of programs. */
  readonly pretty: boolean;
  readonly colors: boolean;
  /** Takes one line, with its newline. Must not throw. */
  readonly write: (line: string) => void;
}

/** A log on pino. Passwords in URLs are masked in whatever is logged. */
export function openLog(options: LogOptions): Log {
  const prettify = options.pretty
    ? prettyFactory({ colorize: options.colors, translateTime: "SYS:HH:MM:ss", ignore: "pid,hostname" })
    : (line: string): string => line;
  return pino(
    { level: options.level, base: null, hooks: { streamWrite: withoutPasswords } },
    { write: (line: string) => options.write(prettify(line)) },
  );
}
