import { fork } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { openTurnq } from "../../../src/app.ts";
import { throwAwayRedis } from "../../redis.ts";
import { until } from "../process/machine.ts";

const FIXTURES = fileURLToPath(new URL("../../fixtures", import.meta.url));

test("invariant 5: when the next attempt of a module's turn begins, the runner of a frozen worker's is dead; thawed, that worker goes on", async () => {
  const redis = await throwAwayRedis();
  const folder = mkdtempSync(join(tmpdir(), "turnq-frozen-"));
  const frozen = fork(join(FIXTURES, "process/module-worker.mjs"), [redis.url, "./witness.mjs"]);
  const gone = once(frozen, "exit");
  const turnq = await openTurnq({
    redis: redis.url,
    agents: [{ name: "witness", type: "module", module: "./witness.mjs" }],
    baseDir: join(FIXTURES, "module"),
    env: process.env,
  });
  try {
    await once(frozen, "message");
    const file = join(folder, "pid");
    const turn = await turnq.submit({
      agent: "witness",
      input: "x",
      options: { file },
      retry: { backoff: { delayMs: 5 } },
    });
    await until("the first attempt runs", () => existsSync(file) && readFileSync(file, "utf8") !== "");

    frozen.kill("SIGSTOP");
    const worker = turnq.worker({ concurrency: 2 });
    await worker.start();
    const result = await turn.result({ waitMs: 60_000 });
    expect(result).toMatchObject({
      ok: true,
      output: "dead",
      attempts: [
        { attempt: 1, status: "lost" },
        { attempt: 2, status: "completed" },
      ],
    });
    expect(result.attempts[0]?.worker).not.toBe(result.attempts[1]?.worker);

    await worker.close();
    writeFileSync(`${file}.end`, "");
    frozen.kill("SIGCONT");
    const again = await turnq.submit({ agent: "witness", input: "again" });
    expect(await again.result({ waitMs: 60_000 })).toMatchObject({
      output: "well",
      attempts: [{ worker: result.attempts[0]?.worker }],
    });
    expect(await turn.result()).toEqual(result);
  } finally {
    frozen.kill("SIGCONT");
    frozen.kill("SIGKILL");
    await gone;
    await turnq.close();
    await redis.stop();
    rmSync(folder, { recursive: true });
  }
});
