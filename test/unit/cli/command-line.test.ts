import { EventEmitter } from "node:events";
import { Readable } from "node:stream";
import { setImmediate as nextRound } from "node:timers/promises";
import { expect, test } from "vitest";
import { runCommandLine } from "../../../src/cli/command-line.ts";
import type { SignalSource } from "../../../src/cli/interruption.ts";
import { TextSink } from "./text-sink.ts";

class Signals extends EventEmitter implements SignalSource {}

function start(argv: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const [stdout, stderr] = [new TextSink(), new TextSink()];
  const exit = (): void => undefined;
  const run = (): Promise<number> =>
    runCommandLine({ argv, env, cwd: "/", stdin: Readable.from([]), stdout, stderr, signals: new Signals(), exit });
  return { stdout, stderr, run };
}

test("C15: the exit code comes when all that was printed has been taken", async () => {
  const { stdout, run } = start(["--version"]);
  stdout.hold = true;
  let code: number | undefined;
  const ended = run().then((given) => (code = given));
  for (let rounds = 0; rounds < 20; rounds += 1) await nextRound();
  expect(code).toBeUndefined();
  stdout.release();
  expect(await ended).toBe(0);
  expect(stdout.text).toMatch(/^\d+\.\d+\.\d+\n$/);
});

test.each([
  ["nothing", [], {}, "Usage: turnq"],
  ["an unknown option", ["run", "f", "--bacth", "b"], {}, "Did you mean --batch?"],
  ["a log level that is none", ["doctor"], { TURNQ_LOG_LEVEL: "loud" }, 'TURNQ_LOG_LEVEL: "loud" is no log level'],
  ["a file that is not there", ["run", "/nowhere/a.jsonl"], {}, "error: /nowhere/a.jsonl: cannot be read"],
])("%s: exit 2, and stdout stays empty", async (_, argv, env, text) => {
  const { stdout, stderr, run } = start(argv, env);
  expect(await run()).toBe(2);
  expect(stdout.text).toBe("");
  expect(stderr.text).toContain(text);
  expect(stderr.text).not.toMatch(/^ +at /m);
});
