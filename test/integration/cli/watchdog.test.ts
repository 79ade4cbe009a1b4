import { afterEach, beforeEach, expect, test } from "vitest";
import { openTurnq } from "../../../src/app.ts";
import { CliFolder } from "./cli-folder.ts";

let folder: CliFolder;
let redis: { readonly url: string };
beforeEach(async () => {
  folder = await CliFolder.make();
  redis = await folder.keepRedis();
  const agents = { rude: { type: "scripted", script: [{ block: 60_000 }], limits: { timeoutMs: 300, graceMs: 0 } } };
  await folder.write("turnq.config.json", JSON.stringify({ agents }));
});
afterEach(async () => {
  await folder.remove();
});

test("invariant 9: a worker whose loop an agent blocks past its deadline is ended by its watchdog, and says why", async () => {
  const worker = folder.start(["work", "--agent", "rude"]);
  await worker.saidOnStderr("taking turns");
  const turnq = await openTurnq({ redis: redis.url });
  try {
    const turn = await turnq.submit({ agent: "rude", input: "x", retry: { maxCrashes: 1 } });
    expect((await worker.ended).signal).toBe("SIGKILL");
    expect(worker.stderr).toContain("the event loop is blocked past the deadline of a turn");
    expect((await turn.row()).state).toBe("running");
  } finally {
    await turnq.close();
  }
});
