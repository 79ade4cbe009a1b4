import { afterEach, beforeEach, expect, test } from "vitest";
import { openTurnq } from "../../../src/app.ts";
import { type CliFolder, stepFolder, turnsFile, until } from "./cli-folder.ts";

let folder: CliFolder;
let redis: { readonly url: string };
beforeEach(async () => {
  folder = await stepFolder();
  redis = await folder.keepRedis();
});
afterEach(async () => {
  await folder.remove();
});

async function ran(...lines: readonly string[]): Promise<void> {
  await until(`the runs ${lines.join(", ")}`, async () => {
    const log = (await folder.read("runs.log")).split("\n");
    return lines.every((line) => log.includes(line));
  });
}

test("SIGTERM to one of two workers in mid-batch: it exits by itself, its turns go on in the other one without a lease's wait, no attempt is spent", async () => {
  const waiting = ["w1", "w2", "w3", "w4"].map((id) => ({ id, input: `wait ${id}`, retry: { maxAttempts: 1 } }));
  await folder.write("turns.jsonl", turnsFile(waiting));
  const submitted = await folder.run(["submit", "turns.jsonl", "--batch", "b"]);
  expect(submitted.code, submitted.stderr).toBe(0);
  const one = folder.start(["work", "--concurrency", "2"]);
  await ran("b:w1:step:1 1", "b:w2:step:1 1");
  const two = folder.start(["work", "--concurrency", "10"]);
  await ran("b:w3:step:1 1", "b:w4:step:1 1");

  one.signal("SIGTERM");
  const ended = await one.ended;
  expect([ended.code, ended.signal], ended.stderr).toEqual([0, null]);
  // The other one runs them while nothing else has changed.
  await ran("b:w1:step:1 2", "b:w2:step:1 2");
  await folder.write("go", "");
  const turnq = await openTurnq({ redis: redis.url });
  const all = await Promise.all(
    waiting.map(async ({ id }) => (await turnq.turn(`b:${id}:step:1`)).result({ waitMs: 30_000 })),
  );
  await turnq.close();
  expect(all.every(({ ok }) => ok)).toBe(true);
  const statuses = all.map(({ attempts }) => attempts.map(({ status }) => status));
  expect(statuses.toSorted((a, b) => b.length - a.length)).toEqual([
    ["interrupted", "completed"],
    ["interrupted", "completed"],
    ["completed"],
    ["completed"],
  ]);
  two.signal("SIGTERM");
  expect((await two.ended).code).toBe(0);
});
