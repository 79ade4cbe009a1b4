import { rm, writeFile } from "node:fs/promises";
import type { Readiness } from "../queue/readiness.ts";

/** How often the file is written, in ms: a frozen worker cannot take it away, so its age counts too. */
const EVERY_MS = 1000;

/**
 * Keeps a file for a process manager: while the worker is ready it is there and written anew every second; it is taken
 * away when the worker is not. The answer ends that. A file that cannot be written counts as not ready, and never throws.
 */
export function keepReadyFile(file: string, readiness: () => Readiness): () => Promise<void> {
  let last = Promise.resolve();
  const look = async (): Promise<void> => {
    await (readiness().ready ? writeFile(file, `${process.pid}\n`) : rm(file, { force: true }));
  };
  const next = (): void => void (last = last.then(look).catch(() => undefined));
  next();
  const timer = setInterval(next, EVERY_MS);
  timer.unref();
  return async () => {
    clearInterval(timer);
    await last;
    await rm(file, { force: true }).catch(() => undefined);
  };
}
