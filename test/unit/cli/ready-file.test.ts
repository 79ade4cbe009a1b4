import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { keepReadyFile } from "../../../src/cli/ready-file.ts";
import type { Readiness } from "../../../src/queue/readiness.ts";

test("the file is there while the worker is ready, and gone when it is not or has ended", async () => {
  const dir = await mkdtemp(join(tmpdir(), "turnq-test-ready-"));
  onTestFinished(() => rm(dir, { recursive: true }));
  const file = join(dir, "ready");
  const there = () =>
    readFile(file, "utf8").then(
      (text) => text === `${process.pid}\n`,
      () => false,
    );
  let ready: Readiness = { ready: true };
  const end = keepReadyFile(file, () => ready);
  await expect.poll(there, { timeout: 20_000 }).toBe(true);
  ready = { ready: false, reason: "closing", message: "" };
  await expect.poll(there, { timeout: 20_000 }).toBe(false);
  ready = { ready: true };
  await expect.poll(there, { timeout: 20_000 }).toBe(true);
  await end();
  expect(await there()).toBe(false);
});
