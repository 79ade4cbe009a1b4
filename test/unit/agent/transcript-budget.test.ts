import { describe, expect, it } from "vitest";
import type { EventBody } from "../../../src/domain/turn-event.ts";
import { eventFaults } from "../../../src/agent/closed-events.ts";
import { CUT_NOTE } from "../../../src/domain/text.ts";
import { TranscriptBudget } from "../../../src/agent/transcript-budget.ts";

const end: EventBody = {
  type: "agent_end",
  status: "completed",
  crashed: false,
  output: "",
  usage: { modelCalls: 0, toolCalls: 0, known: "reported" },
};

describe("the budget of a transcript", () => {
  it("lets all pass as long as there is room", () => {
    const budget = new TranscriptBudget(10_000);
    const events: EventBody[] = [
      { type: "text_delta", text: "a" },
      { type: "step_start", number: 1 },
      { type: "tool_start", id: "1", name: "t", args: { a: 1 } },
      { type: "tool_end", id: "1", status: "ok", result: 2 },
      { type: "step_end", number: 1, success: true },
      { type: "plan", plan: [] },
    ];
    expect(events.map((event) => budget.fit(event))).toEqual(events);
    expect(budget.cut).toBe(false);
  });

  it("cuts the text with one note, and then drops what says more", () => {
    const budget = new TranscriptBudget(50);
    const cut = budget.fit({ type: "text_delta", text: `${"x".repeat(49)}😀 and more` });
    expect(cut).toMatchObject({ text: expect.stringMatching(/^x{49}\n\[cut/) as string });
    expect(budget.fit({ type: "text_delta", text: "more" })).toBeUndefined();
    expect([budget.cut, budget.textCut]).toEqual([true, true]);
  });

  it("leaves out the values of tools, but never an end, usage or the agent's own frame", () => {
    const budget = new TranscriptBudget(100);
    for (let number = 1; number < 1000; number += 1) budget.fit({ type: "step_start", number });
    expect(budget.fit({ type: "tool_start", id: "1", name: "t", args: "y".repeat(500) })).toMatchObject({
      args: expect.stringContaining("[cut") as string,
    });
    expect(budget.fit({ type: "tool_end", id: "1", status: "ok", result: "z".repeat(500) })).toMatchObject({
      status: "ok",
    });
    expect(budget.fit({ type: "step_start", number: 1001 })).toBeUndefined();
    const usage: EventBody = { type: "usage", usage: { modelCalls: 1, toolCalls: 0, known: "reported" } };
    expect(budget.fit(usage)).toEqual(usage);
  });

  it("one value that is too large costs no later text", () => {
    const budget = new TranscriptBudget(1000);
    budget.fit({ type: "tool_start", id: "1", name: "t", args: "y".repeat(5000) });
    expect(budget.fit({ type: "text_delta", text: "the answer" })).toMatchObject({ text: "the answer" });
  });

  it("what was left out with its start is left out with its end, so that all stays closed; calls always pass", () => {
    const budget = new TranscriptBudget(1000);
    const passed: EventBody[] = [];
    const all: EventBody[] = [{ type: "agent_start", agent: "a" }];
    for (let n = 1; n <= 1000; n += 1) {
      const nested = { threadId: `n${n}`, parentThreadId: "root" };
      all.push(
        { type: "step_start", number: n },
        { type: "call_start" },
        { type: "agent_start", agent: "b", ...nested },
        { type: "tool_start", id: "x", name: "t", args: {}, ...nested },
        { type: "tool_end", id: "x", status: "ok", ...nested },
        { ...end, ...nested },
        { type: "step_end", number: n, success: true },
      );
    }
    all.push(end);
    for (const event of all) {
      const fitting = budget.fit(event);
      if (fitting !== undefined) passed.push(fitting);
    }
    expect(eventFaults(passed)).toEqual([]);
    expect(passed.filter(({ type }) => type === "call_start")).toHaveLength(1000);
    expect(passed.length).toBeLessThan(4000);
  });

  it("takes what JSON cannot carry", () => {
    const round: Record<string, unknown> = { big: 1n };
    round["self"] = round;
    expect(new TranscriptBudget().fits(round)).toBe(true);
  });

  it("bounds empty events too: beside its text 1000 entries, or one for 100 characters of the limit", () => {
    for (const [max, entries] of [
      [1000, 1000],
      [500_000, 5000],
    ] as const) {
      const budget = new TranscriptBudget(max);
      const passed = Array.from({ length: 2 * entries }, () => budget.fit({ type: "plan", plan: [] }));
      expect(passed.filter((event) => event !== undefined)).toHaveLength(Math.min(entries, max / 2));
    }
  });

  it("U24: counts what is kept: deltas that are merged cost no more than their characters", () => {
    const budget = new TranscriptBudget(2500);
    for (let n = 0; n < 500; n += 1) expect(budget.fit({ type: "text_delta", text: "word " })).toBeDefined();
    expect([budget.cut, budget.textCut]).toEqual([false, false]);
    expect(budget.fit({ type: "text_delta", text: "!" })).toEqual({ type: "text_delta", text: `\n${CUT_NOTE}` });
    const other = new TranscriptBudget(1000);
    const kinds = ["text_delta", "thought_delta"] as const;
    const passed = Array.from({ length: 1500 }, (_, n) => other.fit({ type: kinds[n % 2] ?? "text_delta", text: "" }));
    expect(passed.filter((event) => event !== undefined).length).toBe(1001);
  });

  it("does not call the agent's own text cut when a thought or a nested agent's text is", () => {
    for (const event of [
      { type: "thought_delta", text: "x".repeat(2000) },
      { type: "text_delta", text: "x".repeat(2000), threadId: "n", parentThreadId: "root" },
    ] as const) {
      const budget = new TranscriptBudget(1000);
      budget.fit({ type: "agent_start", agent: "b", threadId: "n", parentThreadId: "root" });
      budget.fit(event);
      expect([budget.cut, budget.textCut]).toEqual([true, false]);
      budget.fit({ type: "text_delta", text: "more" });
      expect(budget.textCut).toBe(true);
    }
  });
});
