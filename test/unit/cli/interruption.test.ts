import { EventEmitter, once } from "node:events";
import { expect, test } from "vitest";
import { Interruption, type SignalSource } from "../../../src/cli/interruption.ts";

class Signals extends EventEmitter implements SignalSource {}

test("the first signal stops in order; the second one forces, and ends the process when that is done", async () => {
  const source = new Signals();
  const exits = new EventEmitter();
  let nowAt = 0;
  let forced = 0;
  const interruption = new Interruption(
    source,
    (code) => exits.emit("exit", code),
    () => nowAt,
  );
  interruption.onForce(() => Promise.resolve(void (forced += 1)));
  source.emit("SIGINT", "SIGINT");
  expect(interruption.signal.aborted).toBe(true);
  expect(interruption.name).toBe("SIGINT");
  // npm hands the terminal's Ctrl-C on a second time.
  nowAt = 100;
  source.emit("SIGINT", "SIGINT");
  expect(forced).toBe(0);
  nowAt = 1000;
  const exited = once(exits, "exit");
  source.emit("SIGTERM", "SIGTERM");
  expect(forced).toBe(1);
  expect(await exited).toEqual([130]);
  expect(interruption.name).toBe("SIGINT");
});

test("a force that does not end, or fails, does not hold the process", async () => {
  for (const force of [() => new Promise<void>(() => undefined), () => Promise.reject(new Error("no"))]) {
    const source = new Signals();
    const exits = new EventEmitter();
    let nowAt = 0;
    const interruption = new Interruption(
      source,
      (code) => exits.emit("exit", code),
      () => nowAt,
    );
    interruption.onForce(force);
    source.emit("SIGTERM", "SIGTERM");
    nowAt = 1000;
    const exited = once(exits, "exit");
    source.emit("SIGTERM", "SIGTERM");
    expect(await exited).toEqual([130]);
  }
});

test("after the end signals are not listened to", () => {
  const source = new Signals();
  new Interruption(source, () => undefined).end();
  expect(source.eventNames()).toEqual([]);
});
