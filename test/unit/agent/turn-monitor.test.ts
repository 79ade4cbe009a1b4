import type { EventBody } from "../../../src/domain/turn-event.ts";
import { describe, expect, it } from "vitest";
import { resolveLimits } from "../../../src/domain/limits.ts";
import { NO_USAGE } from "../../../src/domain/usage.ts";
import { TurnMonitor, type MonitorOptions } from "../../../src/agent/turn-monitor.ts";
import { FakeClock } from "../../agents.ts";

function monitor(limits: Parameters<typeof resolveLimits>[0] = {}, more: Partial<MonitorOptions> = {}): TurnMonitor {
  return new TurnMonitor({ limits: resolveLimits(limits), clock: new FakeClock(), ...more });
}

const stepEnd = { type: "step_end", number: 1, success: true } as const;
const toolStart = { type: "tool_start", id: "a", name: "look", args: {} } as const;
const used = (inputTokens: number) => ({ type: "usage", usage: { ...NO_USAGE, inputTokens } }) as const;

describe("TurnMonitor", () => {
  it("answers nothing while nothing is the matter", () => {
    const it = monitor({ maxSteps: 2, maxToolCalls: 2, maxTokens: 10 });
    it.observe(stepEnd);
    it.observe(toolStart);
    it.observe(used(9));
    expect(it.shouldStop()).toBeUndefined();
    expect(it.answer).toBeUndefined();
  });

  it("answers a request of the worker, and the first one stays", () => {
    const it = monitor();
    it.requestStop("cancelled");
    it.requestStop("shutdown");
    expect(it.shouldStop()).toBe("cancelled");
  });

  it("answers `deadline` earlier than the deadline, by the smaller of graceMs and a tenth", async () => {
    const clock = new FakeClock();
    const short = monitor({ timeoutMs: 1000, graceMs: 5000 }, { clock });
    const long = monitor({ timeoutMs: 600_000, graceMs: 5000 }, { clock });
    await clock.advance(899);
    expect(short.shouldStop()).toBeUndefined();
    await clock.advance(1);
    expect(short.shouldStop()).toBe("deadline");
    await clock.advance(595_000 - 901);
    expect(long.shouldStop()).toBeUndefined();
    await clock.advance(1);
    expect(long.shouldStop()).toBe("deadline");
  });

  it("C48: a limit of 30 days is no instant deadline", () => {
    expect(monitor({ timeoutMs: 30 * 86_400_000 }).shouldStop()).toBeUndefined();
  });

  it("counts steps, tool calls and tokens over all attempts", () => {
    const before = { steps: 2, toolCalls: 3, tokens: 100, costUsd: 0.5 };
    const steps = monitor({ maxSteps: 3 }, { before });
    expect(steps.shouldStop()).toBeUndefined();
    steps.observe(stepEnd);
    expect(steps.shouldStop()).toBe("max_steps");

    const tools = monitor({ maxToolCalls: 4 }, { before });
    expect(tools.shouldStop()).toBeUndefined();
    tools.observe(toolStart);
    expect(tools.shouldStop()).toBe("max_tool_calls");

    const tokens = monitor({ maxTokens: 130 }, { before });
    tokens.observe(used(29));
    expect(tokens.shouldStop()).toBeUndefined();
    tokens.observe(used(30));
    expect(tokens.shouldStop()).toBe("max_tokens");

    const cost = monitor({ maxCostUsd: 0.75 }, { before });
    const paid = (costUsd: number): EventBody => ({
      type: "usage",
      usage: { costUsd, modelCalls: 1, toolCalls: 0, known: "reported" },
    });
    cost.observe(paid(0.125));
    expect(cost.shouldStop()).toBeUndefined();
    cost.observe(paid(0.25));
    expect(cost.shouldStop()).toBe("max_cost");
    expect(tokens.spent).toEqual({ steps: 2, toolCalls: 3, tokens: 130, costUsd: 0.5 });
  });

  it("C32: usage is cumulative: a repeated report counts once, and a smaller one takes nothing back", () => {
    const it = monitor({ maxTokens: 100 });
    it.observe(used(40));
    it.observe(used(40));
    it.observe(used(10));
    expect(it.spent.tokens).toBe(40);
    expect(it.shouldStop()).toBeUndefined();
  });

  it("steps of nested agents are not the turn's, their tool calls are", () => {
    const it = monitor();
    it.observe({ ...stepEnd, threadId: "sub", parentThreadId: "root" });
    it.observe({ ...toolStart, threadId: "sub", parentThreadId: "root" });
    expect(it.spent).toEqual({ steps: 0, toolCalls: 1, tokens: 0, costUsd: 0 });
  });

  it("the first answer is latched", () => {
    const it = monitor({ maxSteps: 1 });
    it.observe(stepEnd);
    expect(it.shouldStop()).toBe("max_steps");
    it.requestStop("cancelled");
    expect(it.shouldStop()).toBe("max_steps");
  });

  it("what holds at once is answered in order: request, deadline, criterion, limit", async () => {
    const clock = new FakeClock();
    const options = { clock, criteria: [() => true] };
    const limits = { maxSteps: 1, timeoutMs: 100 };
    const limited = monitor({ maxSteps: 1, timeoutMs: 100_000 }, options);
    const late = monitor(limits, options);
    const asked = monitor(limits, options);
    for (const it of [limited, late, asked]) it.observe(stepEnd);
    asked.requestStop("shutdown");
    await clock.advance(100);
    expect([limited, late, asked].map((it) => it.shouldStop())).toEqual(["criterion", "deadline", "shutdown"]);
  });

  it("a criterion stops the turn when it says so", () => {
    const it = monitor({}, { criteria: [({ toolCalls }) => toolCalls >= 2] });
    it.observe(toolStart);
    expect(it.shouldStop()).toBeUndefined();
    it.observe(toolStart);
    expect(it.shouldStop()).toBe("criterion");
  });

  it("a criterion that throws disarms all criteria and never stops a turn", () => {
    let asked = 0;
    const failing = (): boolean => {
      asked += 1;
      throw new Error("a bug");
    };
    const it = monitor({ maxSteps: 1 }, { criteria: [failing, () => true] });
    expect(it.shouldStop()).toBeUndefined();
    expect(it.shouldStop()).toBeUndefined();
    expect(asked).toBe(1);
    it.observe(stepEnd);
    expect(it.shouldStop()).toBe("max_steps");
  });
});
