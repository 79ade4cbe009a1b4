import { setImmediate as nextRound } from "node:timers/promises";
import { expect, test } from "vitest";
import { Output } from "../../../src/cli/output.ts";
import { TextSink } from "./text-sink.ts";

async function isDone(promise: Promise<unknown>): Promise<boolean> {
  let done = false;
  void promise.then(() => (done = true));
  for (let rounds = 0; rounds < 5; rounds += 1) await nextRound();
  return done;
}

test("C15: a slow reader makes the writer wait, and flush waits for every byte", async () => {
  const stdout = new TextSink({ highWaterMark: 10 });
  const output = new Output(stdout, new TextSink());
  stdout.hold = true;
  const written = output.line("x".repeat(100));
  const flushed = output.flush();
  expect(await isDone(written)).toBe(false);
  expect(await isDone(flushed)).toBe(false);
  stdout.release();
  await flushed;
  expect(stdout.text).toBe(`${"x".repeat(100)}\n`);
});

test("a reader who goes away is told of once; nothing waits for it and nothing throws", async () => {
  const stdout = new TextSink({ highWaterMark: 1 });
  const output = new Output(stdout, new TextSink());
  stdout.hold = true;
  const written = output.line("first");
  stdout.breakPipe();
  await written;
  await output.flush();
  expect(output.gone.aborted).toBe(true);
  await output.line("second");
});

test("another fault of stdout is an error of the command", async () => {
  const stdout = new TextSink();
  const output = new Output(stdout, new TextSink());
  stdout.destroy(Object.assign(new Error("no space left"), { code: "ENOSPC" }));
  await nextRound();
  await expect(output.line("x")).rejects.toMatchObject({ code: "file" });
  await expect(output.flush()).rejects.toMatchObject({ code: "file" });
});

test("what is shown in place goes to a terminal only, and lines stand above it", async () => {
  const [plain, terminal] = [new TextSink(), new TextSink({ isTTY: true })];
  for (const stderr of [plain, terminal]) {
    const output = new Output(new TextSink(), stderr);
    await output.prepareLive();
    output.live("half way");
    output.note("a line");
    output.live("");
  }
  expect(plain.text).toBe("a line\n");
  expect(terminal.text).toContain("half way");
  expect(terminal.text.indexOf("a line")).toBeLessThan(terminal.text.lastIndexOf("half way"));
});

test("stderr that nobody reads ends nothing", async () => {
  const stderr = new TextSink();
  const output = new Output(new TextSink(), stderr);
  stderr.breakPipe();
  await nextRound();
  output.note("x");
  expect(output.gone.aborted).toBe(false);
});
