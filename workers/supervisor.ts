import { writeSync } from "node:fs";
import { superviseUntilEnd } from "../src/process/supervisor-loop.ts";

// What ends the worker must not end its supervisor before the worker's processes are dead.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"] as const) process.on(signal, () => undefined);

const [store = "", worker = "", workerPid = "0"] = process.argv.slice(2);
await superviseUntilEnd(process.stdin, { store, worker, workerPid: Number(workerPid) }, (report) => {
  try {
    // At once, since what comes next is a kill that the worker will see.
    writeSync(1, `${JSON.stringify(report)}\n`);
  } catch {
    // the worker is gone, or reads nothing: it sees the kill
  }
});
process.exit(0);
