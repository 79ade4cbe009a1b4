import { createRunner } from "../src/agents/module/runner-loop.ts";
import type { RunnerOrder } from "../src/agents/module/runner-message.ts";
import { MARK_NAME } from "../src/process/mark.ts";

// The channel ends with the worker: nobody waits for an answer any more.
process.on("disconnect", () => process.exit(0));

process.title = "turnq-runner";

const take = createRunner({
  send: (report) => void process.send?.(report),
  sendOut: (report) =>
    new Promise((resolve, reject) => {
      if (process.send?.(report, (error: Error | null) => (error === null ? resolve() : reject(error))) === undefined)
        reject(new Error("there is no worker"));
    }),
  mark: (mark) => {
    if (mark !== undefined) process.env[MARK_NAME] = mark;
    process.title = mark === undefined ? "turnq-runner" : `${MARK_NAME}=${mark}`;
  },
  rss: () => process.memoryUsage.rss(),
  leftOver: () => process.getActiveResourcesInfo().length,
});
process.on("message", (order) => take(order as RunnerOrder));
