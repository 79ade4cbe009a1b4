import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ProtocolReader } from "../../../../src/agents/command/protocol-reader.ts";
import { EventBody } from "../../../../src/domain/turn-event.ts";

function read(lines: readonly unknown[]): { reader: ProtocolReader; events: EventBody[]; finals: number } {
  const events: EventBody[] = [];
  let finals = 0;
  const reader = new ProtocolReader({ emit: (event) => events.push(event), onFinal: () => (finals += 1) });
  for (const line of lines) reader.push(Buffer.from(`${typeof line === "string" ? line : JSON.stringify(line)}\n`));
  reader.end();
  return { reader, events, finals };
}

describe("the reader of the command protocol", () => {
  it("makes events of every known line", () => {
    const { events, reader } = read([
      { type: "step_start", number: 2 },
      { type: "call_start" },
      { type: "thought", text: "a" },
      { type: "text", text: "b" },
      { type: "tool_start", id: "1", name: "t" },
      { type: "tool_end", id: "1", status: "denied" },
      { type: "plan", plan: [{ text: "p", status: "pending" }] },
      { type: "usage", modelCalls: 2 },
      { type: "step_end", success: false },
    ]);
    expect(events.map((event) => event.type)).toEqual([
      "step_start",
      "call_start",
      "thought_delta",
      "text_delta",
      "tool_start",
      "tool_end",
      "plan",
      "usage",
      "step_end",
    ]);
    expect(reader.ignored).toBe(0);
    for (const event of events) EventBody.parse(event);
  });

  it("ends with the first result or error, and hears nothing after it", () => {
    const { reader, events, finals } = read([
      { type: "result", output: "a" },
      { type: "error", message: "b" },
      { type: "text", text: "c" },
    ]);
    expect(reader.final).toMatchObject({ type: "result", output: "a" });
    expect(events).toEqual([]);
    expect(finals).toBe(1);
  });

  it("ignores and counts what is an object and says nothing valid", () => {
    const { reader, events } = read([
      {},
      { type: "text" },
      { type: "text", text: 5 },
      { type: "tool_start", name: "no id" },
      { type: "tool_end", id: "1", status: "fine" },
      { type: "usage" },
      { type: "usage", inputTokens: "12" },
      { type: "plan", plan: [{ text: "x", status: "someday" }] },
    ]);
    expect(reader.ignored).toBe(8);
    expect(events).toEqual([]);
  });

  it("whatever bytes come, it never throws, and every event is valid", () => {
    const line = fc.oneof(
      fc.string(),
      fc.json(),
      fc.record({
        type: fc.constantFrom("text", "usage", "tool_start", "plan", "step_start", "x"),
        text: fc.anything(),
        id: fc.string(),
        name: fc.string(),
        inputTokens: fc.anything(),
      }),
    );
    fc.assert(
      fc.property(fc.array(line), (lines) => {
        const { events } = read(lines.map((one) => (typeof one === "string" ? one : (JSON.stringify(one) ?? ""))));
        for (const event of events) expect(EventBody.safeParse(event).success).toBe(true);
      }),
    );
  });

  it("keeps the last of the log only", () => {
    const { reader } = read(Array.from({ length: 10_000 }, (_, n) => `log line ${n}`));
    expect(reader.log).toContain("log line 9999");
    expect(reader.log.length).toBeLessThanOrEqual(4096);
  });
});
