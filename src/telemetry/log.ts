/** Where a component logs: an object of facts and a sentence. pino's logger is one. */
export interface Log {
  debug(facts: object, message: string): void;
  info(facts: object, message: string): void;
  warn(facts: object, message: string): void;
  error(facts: object, message: string): void;
}

/** A log that keeps nothing. */
export const SILENT: Log = { debug() {}, info() {}, warn() {}, error() {} };
