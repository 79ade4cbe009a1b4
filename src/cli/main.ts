#!/usr/bin/env node
import { processEnvironment } from "../config.ts";
import { runCommandLine } from "./command-line.ts";

const code = await runCommandLine({
  argv: process.argv.slice(2),
  env: processEnvironment(),
  cwd: process.cwd(),
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  signals: process,
  exit: (forced) => process.exit(forced),
});
// All is printed: what still holds the process (a connection that lingers) need not be waited for.
process.exit(code);
