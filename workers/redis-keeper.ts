#!/usr/bin/env node
import { parseArgs } from "node:util";
import { messageOf } from "../src/domain/error.ts";
import { runKeeper } from "../src/redis/keeper.ts";

const { values } = parseArgs({
  options: {
    dir: { type: "string" },
    binary: { type: "string" },
    lock: { type: "string" },
    "idle-ms": { type: "string" },
  },
});
const { dir, binary, lock } = values;

function log(line: string): void {
  process.stdout.write(`${new Date().toISOString()} keeper ${process.pid}: ${line}\n`);
}

const ending = new AbortController();
for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, () => ending.abort());

try {
  if (dir === undefined || binary === undefined) throw new Error("--dir and --binary are needed");
  await runKeeper({
    dir,
    binary,
    lock: lock === "flock" || lock === "lockf" ? lock : undefined,
    idleMs: values["idle-ms"] === undefined ? undefined : Number(values["idle-ms"]),
    log,
    signal: ending.signal,
  });
} catch (error) {
  log(messageOf(error));
  process.exitCode = 1;
}
// Closed connections linger for seconds, and whoever waits for the keeper's lock waits for its end.
process.exit();
