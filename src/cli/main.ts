#!/usr/bin/env node
import { runCommandLine } from "./command-line.ts";

const code = await runCommandLine({
  argv: process.argv.slice(2),
  env: process.env,
  cwd: process.cwd(),
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  signals: process,
  exit: (forced) => process.exit(forced),
});
// All is printed: what still holds the process (a connection that lingers) need not be waited for.
process.exit(code);
