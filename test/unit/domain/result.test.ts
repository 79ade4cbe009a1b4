import { describe, expect, expectTypeOf, test } from "vitest";
import { agentResult, agentResultOf } from "../../../src/domain/agent-result.ts";
import type { Message } from "../../../src/domain/message.ts";
import { Result, failed, succeeded } from "../../../src/domain/result.ts";
import { AttemptStatus, endedWell, type TurnRecord } from "../../../src/domain/turn-record.ts";
import { NO_USAGE, UNKNOWN_USAGE } from "../../../src/domain/usage.ts";
import { WorkflowResult, abortError, joinOutputs, workflowResult } from "../../../src/domain/workflow-result.ts";

const said = (content: Message["content"]): Message => ({ role: "assistant", content });
const asked: Message = { role: "user", content: "hello" };

describe("Result", () => {
  test("has five fields when it is ok and six when it is not", () => {
    expect(Object.keys(succeeded("a", "out")).toSorted()).toEqual(["agent", "messages", "ok", "output", "usage"]);
    const bad = failed("a", "broke", { ...UNKNOWN_USAGE, inputTokens: 3 }, [asked]);
    expect(bad).toEqual({
      agent: "a",
      output: "",
      messages: [asked],
      usage: { ...UNKNOWN_USAGE, inputTokens: 3 },
      ok: false,
      error: "broke",
    });
    expect(failed("a", "")).toMatchObject({ error: "unknown error" });
  });

  test("error is there if and only if ok is false", () => {
    const base = { agent: "a", output: "", messages: [], usage: NO_USAGE };
    expect(Result.safeParse({ ...base, ok: false }).success).toBe(false);
    expect(Result.parse({ ...base, ok: true, error: "x" })).toEqual({ ...base, ok: true });
    expectTypeOf<Extract<Result, { ok: true }>>().not.toHaveProperty("error");
    expectTypeOf<Extract<Result, { ok: false }>["error"]>().toEqualTypeOf<string>();
    // @ts-expect-error a failed Result says why
    const without: Result = { ...base, ok: false };
    // @ts-expect-error a Result that is ok has no error
    const both: Result = { agent: "a", output: "", messages: [], usage: NO_USAGE, ok: true, error: "x" };
    expect([without.ok, both.ok]).toEqual([false, true]);
  });

  test("is frozen to the bottom and shares nothing with what it was made of", () => {
    const [usage, list] = [{ ...NO_USAGE }, [{ ...asked }]];
    const result = succeeded("a", "out", usage, list);
    usage.modelCalls = 9;
    list[0] = said("other");
    expect(result).toMatchObject({ usage: NO_USAGE, messages: [asked] });
    expect(() => Object.assign(result, { output: "x" })).toThrow(TypeError);
    expect(() => Object.assign(result.messages, { 0: said("x") })).toThrow(TypeError);
    expect(() => Object.assign(result.usage, { modelCalls: 1 })).toThrow(TypeError);
  });
});

describe("AgentResult", () => {
  const facts = { messages: [asked], stepsUsed: 2, cancelled: false, budgetExhausted: false, planSteps: [], error: "" };

  test("finalText is the last assistant message with real content", () => {
    const list = [
      said("first"),
      said("second"),
      said("  \n"),
      { role: "tool", content: "result", toolCallId: "t" } as const,
      said([{ type: "image", url: "x" }]),
    ];
    expect(agentResultOf({ ...facts, messages: list }).finalText).toBe("second");
    expect(
      agentResultOf({
        ...facts,
        messages: [
          said([
            { type: "text", text: "in " },
            { type: "text", text: "parts" },
          ]),
        ],
      }).finalText,
    ).toBe("in parts");
    expect(agentResultOf({ ...facts, messages: [asked] }).finalText).toBe("");
  });

  test("ok means no error and not cancelled; a limit is still ok", () => {
    expect(agentResultOf({ ...facts, budgetExhausted: true }).ok).toBe(true);
    expect(agentResultOf({ ...facts, cancelled: true }).ok).toBe(false);
    const bad = agentResultOf({ ...facts, error: "broke" });
    expect(bad.ok).toBe(false);
    expect(bad.toTurnCompletedEvent()).toEqual({
      type: "turn_completed",
      ok: false,
      finalText: "",
      stepsUsed: 2,
      cancelled: false,
      budgetExhausted: false,
      error: "broke",
    });
  });

  test("from a record: the history and this turn's messages, and the failure's words", () => {
    const record: TurnRecord = {
      v: 1,
      attempt: 1,
      iteration: 1,
      agent: "a",
      input: "hello",
      output: "hi",
      messages: [asked, said("hi")],
      steps: [],
      plan: [{ text: "greet", status: "completed" }],
      usage: NO_USAGE,
      status: "completed",
      crashed: false,
      startedAt: 0,
      endedAt: 1,
      durationMs: 1,
      environment: {},
    };
    const before: Message[] = [{ role: "user", content: "before" }, said("yes")];
    expect(agentResult(record, before)).toMatchObject({
      messages: [...before, asked, said("hi")],
      finalText: "hi",
      ok: true,
      error: "",
      planSteps: record.plan,
    });
    for (const status of AttemptStatus.options) {
      const result = agentResult(
        { ...record, status, failure: { code: "internal", message: "", retryable: false } },
        [],
      );
      expect(result.ok).toBe(endedWell(status));
      expect(result.cancelled).toBe(status === "cancelled");
      expect(result.budgetExhausted).toBe(status === "limit_reached");
      expect(result.error === "").toBe(endedWell(status) || status === "cancelled");
    }
    expect(agentResult({ ...record, status: "crashed", crashReason: "why" }, []).error).toBe("why");
  });
});

describe("WorkflowResult", () => {
  test("keeps the Results in the order of execution, frozen", () => {
    const result = workflowResult(succeeded("lead", "all"), [succeeded("a", "1"), failed("b", "broke")]);
    expect(WorkflowResult.parse(JSON.parse(JSON.stringify(result)))).toEqual(result);
    expect(() => result.steps.pop()).toThrow(TypeError);
  });

  test("joinOutputs: a heading each, a failed branch keeps its section", () => {
    const results = [succeeded("a", "one"), succeeded("b", " \n"), failed("c", "broke")];
    expect(joinOutputs(results)).toBe("## a\n\none\n\n## b\n\n(no output)\n\n## c (failed)\n\nbroke");
    expect(joinOutputs(results.slice(0, 1), { numbered: true })).toBe("## 1. a\n\none");
    expect(joinOutputs(results, { numbered: true, note: (_result, index) => (index === 0 ? "best" : undefined) })).toBe(
      "## 1. a (best)\n\none\n\n## 2. b\n\n(no output)\n\n## 3. c\n\nbroke",
    );
    expect(joinOutputs([])).toBe("");
    expect(
      joinOutputs([{ agent: "d", output: "half", messages: [], usage: NO_USAGE, ok: false, error: "cut off" }]),
    ).toBe("## d (failed)\n\nhalf\n\ncut off");
  });

  test("abortError: the reason itself when it is an Error, else one with its text", () => {
    const reason = new Error("mine");
    expect(abortError(AbortSignal.abort(reason))).toBe(reason);
    expect(abortError(AbortSignal.abort("user left"))).toMatchObject({ name: "AbortError", message: "user left" });
    expect(abortError(AbortSignal.abort(null))).toMatchObject({ name: "AbortError", message: "null was thrown" });
    expect(abortError(AbortSignal.abort()).name).toBe("AbortError");
    expect(abortError(new AbortController().signal)).toMatchObject({ name: "AbortError", message: "aborted" });
  });
});
