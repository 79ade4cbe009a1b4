import { describe, expect, it } from "vitest";
import type { EventBody } from "../../../src/domain/turn-event.ts";
import { TranscriptBudget } from "../../../src/process/transcript-budget.ts";

describe("the budget of a transcript", () => {
  it("lets all pass as long as there is room", () => {
    const budget = new TranscriptBudget(10_000);
    const events: EventBody[] = [
      { type: "text_delta", text: "a" },
      { type: "tool_start", id: "1", name: "t", args: { a: 1 } },
      { type: "tool_end", id: "1", status: "ok", result: 2 },
      { type: "plan", plan: [] },
    ];
    expect(events.map((event) => budget.fit(event))).toEqual(events);
    expect(budget.cut).toBe(false);
  });

  it("cuts the text with one note, and then drops what says more", () => {
    const budget = new TranscriptBudget(150);
    const cut = budget.fit({ type: "text_delta", text: `${"x".repeat(49)}😀 and more` });
    expect(cut).toMatchObject({ text: expect.stringMatching(/^x{49}\n\[cut/) as string });
    expect(budget.fit({ type: "text_delta", text: "more" })).toBeUndefined();
    expect(budget.cut).toBe(true);
  });

  it("leaves out the values of tools, but never an end, usage or the agent's own frame", () => {
    const budget = new TranscriptBudget(120);
    expect(budget.fit({ type: "tool_start", id: "1", name: "t", args: "y".repeat(500) })).toMatchObject({
      args: expect.stringContaining("[cut") as string,
    });
    expect(budget.fit({ type: "tool_end", id: "1", status: "ok", result: "z".repeat(500) })).toMatchObject({
      status: "ok",
    });
    expect(budget.fit({ type: "step_start", number: 2 })).toBeUndefined();
    const usage: EventBody = { type: "usage", usage: { modelCalls: 1, toolCalls: 0, known: "reported" } };
    expect(budget.fit(usage)).toEqual(usage);
  });

  it("bounds empty events too", () => {
    const budget = new TranscriptBudget(1000);
    const passed = Array.from({ length: 1000 }, () => budget.fit({ type: "text_delta", text: "" })).filter(
      (event) => event !== undefined,
    );
    expect(passed.length).toBeLessThanOrEqual(11);
  });
});
