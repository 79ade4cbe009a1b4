import { createRunner } from "../src/agents/module/runner-loop.ts";
import type { RunnerOrder } from "../src/agents/module/runner-message.ts";
import { MARK_NAME } from "../src/process/mark.ts";

// The channel ends with the worker: nobody waits for an answer any more.
process.on("disconnect", () => process.exit(0));

const take = createRunner({
  send: (report) => void process.send?.(report),
  mark: (mark) => {
    process.env[MARK_NAME] = mark;
  },
});
process.on("message", (order) => take(order as RunnerOrder));
