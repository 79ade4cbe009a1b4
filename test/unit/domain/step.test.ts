import { describe, expect, test } from "vitest";
import { Step, failedStep, succeededStep } from "../../../src/domain/step.ts";
import { NO_USAGE } from "../../../src/domain/usage.ts";

describe("steps", () => {
  test("what is left out is empty, and the type is normal", () => {
    expect(succeededStep({ number: 1, rawResponse: "raw", result: 5 })).toEqual({
      number: 1,
      type: "normal",
      rawResponse: "raw",
      result: 5,
      prints: [],
      toolCalls: [],
      memory: {},
      success: true,
    });
  });

  test("a failed step has a reason, or any value", () => {
    const bad = failedStep({ number: 2, type: "retry", rawResponse: "", result: { reason: "parse_error" } });
    expect(bad).toMatchObject({ success: false, type: "retry", result: { reason: "parse_error" } });
    expect(failedStep({ number: 2, rawResponse: "", result: null }).result).toBeNull();
    expect(Object.hasOwn(bad, "program")).toBe(false);
  });

  test("A26 a result and a memory that JSON cannot carry are made into what it can", () => {
    const cycle: { self?: unknown } = {};
    cycle.self = cycle;
    const step = succeededStep({ number: 1, rawResponse: "", result: 1n, memory: { cycle, map: new Map([[1, 2]]) } });
    expect(Step.parse(JSON.parse(JSON.stringify(step)))).toEqual(step);
    expect(step).toMatchObject({ result: "1", memory: { cycle: { self: "[cycle]" }, map: [[1, 2]] } });
    expect(succeededStep({ number: 1, rawResponse: "", result: undefined }).result).toBeNull();
  });

  test("a step is frozen to the bottom and shares nothing with what it was made of", () => {
    const result = { list: [1] };
    const toolCalls = [{ id: "t", name: "n", args: { a: [1] }, status: "ok" as const, startedAt: 1 }];
    const step = succeededStep({
      number: 1,
      rawResponse: "",
      result,
      toolCalls,
      usage: { ...NO_USAGE },
      prints: ["p"],
    });
    result.list.push(2);
    toolCalls[0]?.args.a.push(2);
    expect(step.result).toEqual({ list: [1] });
    expect(step.toolCalls[0]?.args).toEqual({ a: [1] });
    for (const inner of [
      step,
      step.result,
      step.toolCalls,
      step.toolCalls[0],
      step.toolCalls[0]?.args,
      step.usage,
      step.prints,
    ]) {
      expect(Object.isFrozen(inner)).toBe(true);
    }
  });
});
