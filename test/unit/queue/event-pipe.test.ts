import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { EventBody, TurnEvent } from "../../../src/domain/turn-event.ts";
import { EventPipe, mergeDeltas } from "../../../src/queue/event-pipe.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const delta = (text: string, threadId?: string): EventBody => ({
  type: "text_delta",
  text,
  ...(threadId === undefined ? {} : { threadId }),
});
const tool = (i: number): EventBody => ({ type: "tool_start", id: `t${i}`, name: "t", args: {} });

/** A pipe whose appends are answered by the test. */
function piped(more: { after?: number; maxChars?: number; answer?: () => Promise<boolean> | boolean } = {}) {
  const appended: TurnEvent[][] = [];
  const pipe = new EventPipe({
    turn: "t1",
    attempt: 2,
    after: more.after ?? 0,
    maxChars: more.maxChars ?? 1_000_000,
    now: () => 1000,
    append: async (events) => {
      appended.push([...events]);
      return (await more.answer?.()) ?? true;
    },
  });
  return { pipe, appended };
}

const texts = (events: readonly TurnEvent[]): string[] =>
  events.flatMap((event) => (event.type === "text_delta" ? [event.text] : [event.type]));

test("events wait at most 100 ms, deltas merged, and get their seq when they are taken", async () => {
  const { pipe, appended } = piped({ after: 10 });
  void pipe.push(delta("a"));
  void pipe.push(delta("b"));
  void pipe.push(tool(1));
  void pipe.push(delta("c"));
  await vi.advanceTimersByTimeAsync(99);
  expect(appended).toEqual([]);
  await vi.advanceTimersByTimeAsync(1);
  expect(appended.map(texts)).toEqual([["ab", "tool_start", "c"]]);
  expect(appended[0]?.map(({ seq, turn, attempt, at }) => [seq, turn, attempt, at])).toEqual([
    [11, "t1", 2, 1000],
    [12, "t1", 2, 1000],
    [13, "t1", 2, 1000],
  ]);
  void pipe.push(delta("d"));
  await vi.advanceTimersByTimeAsync(100);
  expect(appended.map(texts)).toEqual([["ab", "tool_start", "c"], ["d"]]);
});

test("call_start is flushed at once: it must be stored before the call is paid for", async () => {
  const { pipe, appended } = piped();
  void pipe.push(delta("a"));
  void pipe.push({ type: "call_start" });
  await vi.advanceTimersByTimeAsync(0);
  expect(appended.map(texts)).toEqual([["a", "call_start"]]);
});

test("deltas of other threads or kinds are not merged", async () => {
  const { pipe, appended } = piped();
  for (const event of [
    delta("a"),
    delta("b", "x"),
    delta("c", "x"),
    { type: "thought_delta", text: "t" } as const,
    delta("d"),
  ])
    void pipe.push(event);
  await vi.advanceTimersByTimeAsync(100);
  expect(appended[0]?.map((event) => ("text" in event ? event.text : ""))).toEqual(["a", "bc", "t", "d"]);
});

test("A41: while an append is under way the next events wait and merge", async () => {
  let answer = (_ok: boolean): void => {};
  const { pipe, appended } = piped({ answer: () => new Promise<boolean>((resolve) => (answer = resolve)) });
  void pipe.push(delta("a"));
  await vi.advanceTimersByTimeAsync(100);
  for (let i = 0; i < 1000; i++) {
    void pipe.push(delta("x"));
    await vi.advanceTimersByTimeAsync(10);
  }
  expect(appended).toHaveLength(1);
  answer(true);
  await vi.advanceTimersByTimeAsync(100);
  expect(appended).toHaveLength(2);
  expect(appended[1]).toMatchObject([{ text: "x".repeat(1000), seq: 2 }]);
});

test("after an append is refused, since the attempt is no longer current, nothing more is sent", async () => {
  const { pipe, appended } = piped({ answer: () => false });
  void pipe.push(tool(1));
  await vi.advanceTimersByTimeAsync(100);
  void pipe.push(tool(2));
  await vi.advanceTimersByTimeAsync(1000);
  expect(appended).toHaveLength(1);
});

describe("end", () => {
  test("gives all events, and as tail those that are not in the stream", async () => {
    const { pipe, appended } = piped();
    void pipe.push(delta("a"));
    await vi.advanceTimersByTimeAsync(100);
    void pipe.push(delta("b"));
    const { events, tail } = await pipe.end([{ type: "rolled_back", reason: "crashed" }]);
    expect(appended.map(texts)).toEqual([["a"]]);
    expect(texts(events)).toEqual(["ab", "rolled_back"]);
    expect(tail.map(({ seq }) => seq)).toEqual([2, 3]);
    expect(events.map(({ seq }) => seq)).toEqual([2, 3]);
    void pipe.push(delta("too late"));
    await vi.advanceTimersByTimeAsync(1000);
    expect(appended).toHaveLength(1);
  });

  test("waits for an append that is under way", async () => {
    let answer = (_ok: boolean): void => {};
    const { pipe } = piped({ answer: () => new Promise<boolean>((resolve) => (answer = resolve)) });
    void pipe.push(tool(1));
    await vi.advanceTimersByTimeAsync(100);
    void pipe.push(tool(2));
    let ended = false;
    const ending = pipe.end([]).then((all) => {
      ended = true;
      return all;
    });
    await vi.advanceTimersByTimeAsync(1000);
    expect(ended).toBe(false);
    answer(true);
    const { events, tail } = await ending;
    expect(events).toHaveLength(2);
    expect(tail).toMatchObject([{ seq: 2 }]);
  });

  test("a turn that ends before its first flush writes no stream", async () => {
    const { pipe, appended } = piped();
    for (let i = 0; i < 400; i++) void pipe.push(tool(i));
    const { events, tail } = await pipe.end([]);
    expect(appended).toEqual([]);
    expect([events.length, tail.length]).toEqual([400, 400]);
  });

  test("of more events than a close takes, a stream gets the first ones before it", async () => {
    const { pipe, appended } = piped();
    void pipe.push(tool(0));
    await vi.advanceTimersByTimeAsync(100);
    const rest = Array.from({ length: 1234 }, (_, i) => tool(i + 1));
    const { events, tail } = await pipe.end(rest);
    expect(events).toHaveLength(1235);
    expect(tail).toHaveLength(500);
    const all = [...appended.flat(), ...tail];
    expect(all.map(({ seq }) => seq)).toEqual(Array.from({ length: 1235 }, (_, i) => i + 1));
    expect(Math.max(...appended.map((part) => part.length))).toBeLessThanOrEqual(500);
  });
});

test("text beyond the transcript limit is not kept, other events are", async () => {
  const { pipe } = piped({ maxChars: 10 });
  for (let i = 0; i < 10; i++) void pipe.push(delta("xxxx"));
  void pipe.push(tool(1));
  const { events } = await pipe.end([]);
  expect(texts(events)).toEqual(["x".repeat(12), "tool_start"]);
});

test("mergeDeltas joins neighbours, each with its last seq, and leaves its input alone", () => {
  const at = (seq: number, body: EventBody): TurnEvent => ({ turn: "t", attempt: 1, seq, at: seq, ...body });
  const events = [at(1, delta("a")), at(2, delta("b")), at(3, tool(1)), at(4, delta("c")), at(5, delta("d", "x"))];
  const before = structuredClone(events);
  const merged = mergeDeltas(events);
  expect(merged.map(({ seq }) => seq)).toEqual([2, 3, 4, 5]);
  expect(texts(merged)).toEqual(["ab", "tool_start", "c", "d"]);
  expect(events).toEqual(before);
  expect(mergeDeltas(merged)).toEqual(merged);
});
