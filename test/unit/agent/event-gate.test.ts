import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { EventBody } from "../../../src/domain/turn-event.ts";
import { AttemptStatus } from "../../../src/domain/turn-record.ts";
import { NO_USAGE } from "../../../src/domain/usage.ts";
import { eventFaults } from "../../../src/agent/closed-events.ts";
import { EventGate } from "../../../src/agent/event-gate.ts";
import { anyEvents } from "./random-events.ts";

const done = { status: "completed", crashed: false, output: "", usage: NO_USAGE } as const;

function through(raw: readonly unknown[], end: Parameters<EventGate["end"]>[0] = done): EventBody[] {
  const out: EventBody[] = [];
  const gate = new EventGate("me", (event) => void out.push(event));
  for (const event of raw) gate.emit(event as EventBody);
  gate.end(end);
  return out;
}

function brief(events: readonly EventBody[]): string {
  return events
    .map((event) => {
      const at = "threadId" in event && event.threadId !== undefined ? `${event.threadId}:` : "";
      if (event.type === "step_start") return `${at}[${event.number}`;
      if (event.type === "step_end") return `${at}${event.number}${event.success ? "]" : "!]"}`;
      if (event.type === "tool_start") return `${at}(${event.id}`;
      if (event.type === "tool_end") return `${at}${event.id}${event.status === "ok" ? "" : `-${event.status}`})`;
      return `${at}${event.type.replace("agent_", "").replace("_delta", "")}`;
    })
    .join(" ");
}

const text = { type: "text_delta", text: "x" } as const;
const tool = (id: string) => ({ type: "tool_start", id, name: "look", args: {} }) as const;
const toolEnd = (id: string) => ({ type: "tool_end", id, status: "ok" }) as const;

describe("EventGate", () => {
  it("invariant 8, closed events: whatever is emitted and wherever it is cut, everything that was started is ended once", () => {
    fc.assert(
      fc.property(anyEvents, fc.constantFrom(...AttemptStatus.options), (raw, status) => {
        const events = through(raw, { ...done, status });
        expect(eventFaults(events)).toEqual([]);
        for (const event of events) EventBody.parse(event);
      }),
      { numRuns: 500 },
    );
  });

  it("changes nothing of a stream that is closed already", () => {
    const raw = [
      { type: "agent_start", agent: "me" },
      { type: "step_start", number: 1 },
      { type: "call_start" },
      text,
      tool("a"),
      toolEnd("a"),
      { type: "usage", usage: NO_USAGE },
      { type: "step_end", number: 1, success: true },
      { type: "agent_end", ...done },
    ];
    expect(through(raw)).toEqual(raw);
  });

  it.each([
    ["nothing at all", [], "start end"],
    ["work outside a step", [text, text], "start [1 text text 1] end"],
    [
      "a step in a step",
      [
        { type: "step_start", number: 1 },
        { type: "step_start", number: 1 },
      ],
      "start [1 1] [2 2] end",
    ],
    ["an end without a start", [{ type: "step_end", number: 3, success: true }, toolEnd("a")], "start end"],
    ["an orphaned tool", [tool("a"), tool("b"), toolEnd("a")], "start [1 (a (b a) b-unresolved) 1!] end"],
    ["a tool started twice", [tool("a"), tool("a"), toolEnd("a"), toolEnd("a")], "start [1 (a a) 1] end"],
    ["an id used again", [tool("a"), toolEnd("a"), tool("a"), toolEnd("a")], "start [1 (a a) (a a) 1] end"],
    [
      "a tool that outlives its step",
      [tool("a"), { type: "step_end", number: 1, success: true }, toolEnd("a")],
      "start [1 (a 1] a) end",
    ],
    [
      "two starts",
      [
        { type: "agent_start", agent: "x" },
        { type: "agent_start", agent: "y" },
      ],
      "start end",
    ],
    ["events after the end", [{ type: "agent_end", ...done }, text], "start end"],
    ["empty text", [{ type: "text_delta", text: "" }], "start end"],
    ["what a worker says", [{ type: "rolled_back", reason: "x" }], "start end"],
  ])("closes %s", (_name, raw, expected) => {
    expect(brief(through(raw))).toBe(expected);
  });

  it("closes nested agents, the inner one first, and forgets what comes after their end", () => {
    const sub = { threadId: "s", parentThreadId: "r" };
    const deep = { threadId: "d", parentThreadId: "s" };
    const raw = [
      { type: "agent_start", agent: "sub", ...sub },
      { type: "agent_start", agent: "deep", ...deep },
      { ...tool("a"), ...deep },
      { ...tool("a"), ...sub },
    ];
    expect(brief(through(raw))).toBe("start s:start d:start d:(a s:(a d:a-unresolved) d:end s:a-unresolved) s:end end");
    const ended = [...raw.slice(0, 1), { type: "agent_end", ...done, ...sub }, { ...text, ...sub }, text];
    expect(brief(through(ended))).toBe("start s:start s:end [1 text 1] end");
  });

  it("drops what is no event, and never throws", () => {
    const trap = Object.defineProperty({}, "type", { get: () => raise() });
    const raw = [
      null,
      undefined,
      7,
      "x",
      {},
      { type: "banana" },
      { type: "text_delta" },
      { type: "usage", usage: 7 },
      trap,
    ];
    expect(brief(through(raw))).toBe("start end");
    // A figure that is none takes no others with it, and the usage says that it lacks something.
    const usage = { inputTokens: -1, outputTokens: 2, modelCalls: 1, toolCalls: 0, known: "reported" };
    const { inputTokens: _none, ...read } = { ...usage, known: "partial" };
    expect(through([{ type: "usage", usage }])).toContainEqual({ type: "usage", usage: read });
  });

  it("A26: what JSON cannot carry is made safe in the arguments and results of tools", () => {
    const cycle: Record<string, unknown> = {};
    cycle["self"] = cycle;
    const [, , start, end] = through([
      { ...tool("a"), args: { big: 10n, cycle, map: new Map([[1, 2]]) } },
      { ...toolEnd("a"), result: () => 1 },
    ]);
    expect(JSON.parse(JSON.stringify([start, end]))).toEqual([start, end]);
    expect(start).toMatchObject({ args: { big: "10" } });
  });

  it("C42: lone surrogates and NUL do not get through", () => {
    const [, , said] = through([{ type: "text_delta", text: "a\ud83d\u0000b" }]);
    expect(said).toEqual({ type: "text_delta", text: "a\ufffd\ufffdb" });
  });

  it("goes on when the one who listens throws", () => {
    let heard = 0;
    const gate = new EventGate("me", () => {
      heard += 1;
      throw new Error("a bug of the listener");
    });
    gate.emit(text);
    gate.end(done);
    expect(heard).toBe(5);
  });
});

function raise(): never {
  throw new Error("a trap");
}
