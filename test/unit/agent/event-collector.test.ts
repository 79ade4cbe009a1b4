import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { failure } from "../../../src/domain/failure.ts";
import { validHistory, type Message } from "../../../src/domain/message.ts";
import type { EventBody } from "../../../src/domain/turn-event.ts";
import { AttemptStatus, CRASH_REASON_MAX, TurnRecord } from "../../../src/domain/turn-record.ts";
import { NO_USAGE, USAGE_FIELDS, sumUsage, type Usage } from "../../../src/domain/usage.ts";
import { EventCollector, type CollectorOptions, type RecordEnd } from "../../../src/agent/event-collector.ts";
import { UNRESOLVED_NOTE } from "../../../src/agent/transcript.ts";
import { anyEvents } from "./random-events.ts";

const whole: RecordEnd = { status: "completed", crashed: false };
const broken: RecordEnd = { status: "crashed", crashed: true, failure: failure("agent_crash", "boom") };

function collect(events: readonly EventBody[], more: Partial<CollectorOptions> = {}): EventCollector {
  const collector = new EventCollector({
    agent: "me",
    attempt: 1,
    iteration: 1,
    input: "hello",
    startedAt: 1000,
    announcesCalls: false,
    ...more,
  });
  events.forEach((event, index) => collector.add(event, 1001 + index));
  return collector;
}

const say = (text: string): EventBody => ({ type: "text_delta", text });
const tool = (id: string, name = "look"): EventBody => ({ type: "tool_start", id, name, args: { id } });
const toolEnd = (id: string, result: string): EventBody => ({ type: "tool_end", id, status: "ok", result });
const used = (usage: Partial<Usage>): EventBody => ({ type: "usage", usage: { ...NO_USAGE, ...usage } });
const call: EventBody = { type: "call_start" };
const stepEnd: EventBody = { type: "step_end", number: 1, success: true };

function expectSound(record: TurnRecord): void {
  TurnRecord.parse(record);
  expect(JSON.parse(JSON.stringify(record))).toEqual(record);
  const asked = record.messages.flatMap((message) => message.toolCalls ?? []).map((each) => each.id);
  const answered = record.messages.flatMap((message) => message.toolCallId ?? []);
  expect(new Set(asked).size).toBe(asked.length);
  expect(answered.toSorted()).toEqual(asked.toSorted());
  expect(record.messages[0]).toEqual({ role: "user", content: "hello" });
  const kept = record.messages.filter(
    (message) => message.content !== "" || message.toolCalls !== undefined || message.role !== "assistant",
  );
  expect(validHistory(record.messages)).toEqual(kept);
  const booked = sumUsage(usages(record.messages));
  for (const field of USAGE_FIELDS) expect(booked[field] ?? 0).toBe(record.usage[field] ?? 0);
}

function usages(messages: readonly Message[]): Usage[] {
  return messages.flatMap(({ usage }) => (usage === undefined ? [] : [usage]));
}

describe("EventCollector", () => {
  it("gives a sound record of any stream, cut anywhere, for any end", () => {
    fc.assert(
      fc.property(
        anyEvents,
        fc.constantFrom(...AttemptStatus.options),
        fc.boolean(),
        fc.boolean(),
        (events, status, crashed, announcesCalls) => {
          const collector = collect(events, { announcesCalls });
          const record = collector.record({
            status,
            crashed,
            ...(crashed ? { failure: failure("agent_crash", "boom") } : {}),
          });
          expectSound(record);
          expect(collector.record({ status, crashed })).toMatchObject({ output: record.output, usage: record.usage });
        },
      ),
      { numRuns: 500 },
    );
  });

  it("gives the record in mid-stream and goes on", () => {
    const collector = collect([say("He")]);
    expect(collector.record(broken).output).toBe("He");
    collector.add(say("llo"), 1010);
    expect(collector.record(whole).output).toBe("Hello");
  });

  it("makes steps and messages of what happened, in its order", () => {
    const record = collect([
      say("Let me "),
      say("look."),
      tool("t1"),
      toolEnd("t1", "42"),
      stepEnd,
      say("It is 42."),
    ]).record(whole);
    expectSound(record);
    expect(record.messages).toEqual([
      { role: "user", content: "hello" },
      { role: "assistant", content: "Let me look.", toolCalls: [{ id: "t1", name: "look", args: { id: "t1" } }] },
      { role: "tool", content: "42", toolCallId: "t1" },
      { role: "assistant", content: "It is 42.", usage: { modelCalls: 0, toolCalls: 1, known: "unknown" } },
    ]);
    expect(record.steps).toMatchObject([
      {
        number: 1,
        rawResponse: "Let me look.",
        success: true,
        toolCalls: [{ id: "t1", status: "ok", startedAt: 1003, endedAt: 1004 }],
      },
      { number: 2, rawResponse: "It is 42.", success: false, result: { reason: "unfinished" } },
    ]);
    expect(record.output).toBe("It is 42.");
  });

  it("C27: a tool call that was cut off is unresolved in its step and answered in the messages", () => {
    const record = collect([tool("t1")]).record(broken);
    expectSound(record);
    expect(record.steps[0]?.toolCalls[0]).toMatchObject({ status: "unresolved" });
    expect(record.steps[0]?.toolCalls[0]).not.toHaveProperty("endedAt");
    expect(record.messages.at(-1)).toEqual({ role: "tool", content: UNRESOLVED_NOTE, toolCallId: "t1" });
  });

  it("C27: an id that an agent uses again gets its own, so that a cut call is not answered by an older result", () => {
    const record = collect([tool("t"), toolEnd("t", "one"), stepEnd, tool("t")]).record(broken);
    expectSound(record);
    expect(record.messages.flatMap((message) => message.toolCallId ?? [])).toEqual(["t", "t#2"]);
  });

  it("C32: cumulative reports are not added up, and a repeated one changes nothing", () => {
    const record = collect([
      say("a"),
      used({ inputTokens: 10 }),
      used({ inputTokens: 10 }),
      stepEnd,
      say("b"),
      used({ inputTokens: 25, outputTokens: 4 }),
    ]).record(whole);
    expectSound(record);
    expect(record.usage).toMatchObject({ inputTokens: 25, outputTokens: 4, known: "reported" });
    expect(usages(record.messages).map((usage) => usage.inputTokens)).toEqual([10, 15]);
    expect(record.steps.map((step) => step.usage?.inputTokens)).toEqual([10, 15]);
  });

  it("a report that takes back is believed, and booked as one entry", () => {
    const record = collect([say("a"), used({ inputTokens: 10 }), stepEnd, say("b"), used({ inputTokens: 4 })]).record(
      whole,
    );
    expectSound(record);
    expect(usages(record.messages).map((usage) => usage.inputTokens)).toEqual([4]);
  });

  it("books usage without an answer on an empty assistant message, which no provider sees", () => {
    const record = collect([used({ inputTokens: 7, costUsd: 0.3 })]).record(broken);
    expectSound(record);
    expect(record.messages.at(-1)).toMatchObject({
      role: "assistant",
      content: "",
      usage: { inputTokens: 7, costUsd: 0.3 },
    });
    expect(validHistory(record.messages)).toHaveLength(1);
  });

  it("books fractions of a cost exactly, which parts of it would not add up to", () => {
    const costs = [0.35, 0.6699999999999999, 1.43];
    const record = collect(costs.flatMap((costUsd) => [say("a"), used({ costUsd }), stepEnd])).record(whole);
    expectSound(record);
    expect(record.usage.costUsd).toBe(1.43);
  });

  it.each([
    ["nothing reported", [say("a")], whole, false, "unknown 0"],
    ["nothing reported, calls announced, none made", [say("a")], whole, true, "reported 0"],
    ["none made and crashed", [say("a")], broken, true, "reported 0"],
    ["a call without usage", [call], broken, true, "unknown 1"],
    ["all announced calls covered and crashed", [call, used({ inputTokens: 1 })], broken, true, "reported 1"],
    ["one announced call not covered", [call, used({ inputTokens: 1 }), call], broken, true, "partial 2"],
    ["two at once, one covered", [call, call, used({ inputTokens: 1 })], broken, true, "partial 2"],
    [
      "two at once, the report counts both",
      [call, call, used({ inputTokens: 1, modelCalls: 2 })],
      broken,
      true,
      "reported 2",
    ],
    ["a crash without announcing", [used({ inputTokens: 1 })], broken, false, "partial 0"],
    ["one that was seen after the report", [call, used({ inputTokens: 1 }), call], whole, false, "partial 2"],
    ["a report of all that was seen", [call, call, used({ inputTokens: 1 })], whole, false, "reported 2"],
    [
      "one that was seen after a report with a number",
      [call, used({ inputTokens: 1, modelCalls: 1 }), call],
      whole,
      false,
      "partial 2",
    ],
    [
      "one announced after a report of another",
      [used({ inputTokens: 1, modelCalls: 1 }), call],
      whole,
      true,
      "partial 2",
    ],
    ["a good end without announcing", [used({ inputTokens: 1, modelCalls: 3 })], whole, false, "reported 3"],
    ["the agent says partial", [used({ inputTokens: 1, known: "partial" })], whole, true, "partial 0"],
  ] as const)("knows how much is known: %s", (_name, events, end, announcesCalls, expected) => {
    const { usage } = collect(events, { announcesCalls }).record(end);
    expect(`${usage.known} ${usage.modelCalls}`).toBe(expected);
  });

  it("counts the calls of nested agents, but does not put their words into the turn's", () => {
    const sub = { threadId: "s", parentThreadId: "r" };
    const record = collect([
      { ...tool("x"), ...sub },
      { ...say("inner"), ...sub },
      { ...call, ...sub },
      say("outer"),
    ]).record(whole);
    expectSound(record);
    expect(record.output).toBe("outer");
    expect(record.usage).toMatchObject({ toolCalls: 1, modelCalls: 1 });
    expect(record.steps).toHaveLength(1);
  });

  it("takes the messages that the agent gives, and makes them valid", () => {
    const given: Message[] = [
      {
        role: "assistant",
        content: "a",
        toolCalls: [{ id: "q", name: "look", args: {} }],
        usage: { ...NO_USAGE, inputTokens: 99 },
      },
      { role: "assistant", content: "b" },
    ];
    const record = collect([used({ inputTokens: 5 })]).record({ ...whole, messages: given });
    expectSound(record);
    expect(record.messages.map((message) => message.content)).toEqual(["hello", "a", "b"]);
  });

  it("A26: messages that are none are not taken", () => {
    const given = [{ role: "robot" }] as never;
    const record = collect([say("a")]).record({ ...whole, messages: given });
    expectSound(record);
    expect(record.output).toBe("a");
  });

  it("counts what there was no room for", () => {
    const collector = collect([say("a")]);
    collector.leaveOut(tool("t"), 3000);
    collector.leaveOut({ type: "call_start" }, 3000);
    const record = collector.record(whole);
    expectSound(record);
    expect(record).toMatchObject({ output: "a", usage: { toolCalls: 1, modelCalls: 1 } });
  });

  it("C42: an output and messages that an agent gives as a whole are cut with a note", () => {
    const given: Message[] = Array.from({ length: 20 }, (_, n) => [
      { role: "assistant" as const, content: "x".repeat(1_000_000), toolCalls: [{ id: `c${n}`, name: "t", args: {} }] },
      { role: "tool" as const, content: "y".repeat(1000), toolCallId: `c${n}` },
    ]).flat();
    const record = collect([say("a")]).record({ ...whole, messages: given, output: "z".repeat(9_000_000) });
    expectSound(record);
    expect(record.output.length).toBeLessThan(8.5e6);
    expect(record.output).toContain("[cut:");
    expect(JSON.stringify(record.messages).length).toBeLessThan(8.5e6);
    expect(JSON.stringify(record.messages)).toContain("[cut:");
  });

  it("a crashed record says why in at most 200 characters, and cutting is done once", () => {
    const record = collect([]).record({ ...broken, failure: failure("agent_crash", "z".repeat(5000)) });
    expect(record.crashReason).toHaveLength(CRASH_REASON_MAX);
    expect(record.crashReason?.endsWith("z…")).toBe(true);
  });

  it("takes over a record that another process has built, with an end of its own", () => {
    const built = collect([say("part"), used({ inputTokens: 3 })]).record({ ...broken, environment: { node: "v20" } });
    const record = collect([]).record({ status: "timeout", crashed: true, record: built, environment: { pid: 1 } });
    expectSound(record);
    expect(record).toMatchObject({
      status: "timeout",
      output: "part",
      usage: { inputTokens: 3 },
      environment: { node: "v20", pid: 1 },
    });
  });

  it("adds what no event carries to the step, and is frozen", () => {
    const collector = collect([say("```x```")]);
    collector.describeStep({ program: "x", prints: ["1"], memory: { n: 1 }, result: 5 });
    collector.add(stepEnd, 2000);
    const record = collector.record(whole);
    expect(record.steps[0]).toMatchObject({ program: "x", prints: ["1"], memory: { n: 1 }, result: 5, success: true });
    expect(Object.isFrozen(record.steps[0]?.prints)).toBe(true);
    expect(Object.isFrozen(record.messages[0])).toBe(true);
  });

  it("takes durations from the monotonic clock where it is given", () => {
    const collector = collect([say("a")], { startedMs: 50 });
    expect(collector.record({ ...whole, atMs: 75.4 })).toMatchObject({ durationMs: 25, endedAt: 1025 });
    expect(collector.record({ ...whole, atMs: 10 }).durationMs).toBe(0);
    expect(collect([say("a")]).record(whole)).toMatchObject({ durationMs: 1, endedAt: 1001 });
  });
});
