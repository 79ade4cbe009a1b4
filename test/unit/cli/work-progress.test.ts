import { expect, test } from "vitest";
import { Output } from "../../../src/cli/output.ts";
import { showWork, workText } from "../../../src/cli/work-progress.ts";
import { TextSink } from "./text-sink.ts";

test("what a worker does, in words", () => {
  expect(workText({ type: "work", running: 2, ended: 1 })).toBe("2 running, 1 attempt done since the start");
  expect(workText({ type: "work", running: 0, ended: 30, perSecond: 4 })).toBe(
    "0 running, 30 attempts done since the start, 4.0/s",
  );
});

async function shown(style: "json" | "plain" | "none", counts: { running: number; ended: number }): Promise<string[]> {
  const [stdout, stderr] = [new TextSink(), new TextSink()];
  const output = new Output(stdout, stderr);
  await showWork({ output, style, counts: () => counts, now: () => 0, signal: AbortSignal.abort() });
  return [stdout.text, stderr.text];
}

test("it goes to stdout as JSON and to stderr in words; of a worker that has done nothing there is no line", async () => {
  expect(await shown("json", { running: 1, ended: 3 })).toEqual(['{"type":"work","running":1,"ended":3}\n', ""]);
  expect(await shown("plain", { running: 1, ended: 3 })).toEqual(["", "1 running, 3 attempts done since the start\n"]);
  expect(await shown("none", { running: 1, ended: 3 })).toEqual(["", ""]);
  expect(await shown("json", { running: 0, ended: 0 })).toEqual(["", ""]);
});
