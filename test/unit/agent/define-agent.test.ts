import { describe, expect, it } from "vitest";
import { failure } from "../../../src/domain/failure.ts";
import type { EventBody } from "../../../src/domain/turn-event.ts";
import type { TurnRecord } from "../../../src/domain/turn-record.ts";
import { unsupportedLimits } from "../../../src/agent/agent-spec.ts";
import {
  defineAgent,
  isDefinedAgent,
  specOf,
  type AgentFunction,
  type DefineOptions,
} from "../../../src/agent/define-agent.ts";
import { attemptInit, startOptions } from "../../agents.ts";

async function run(
  work: AgentFunction,
  options: DefineOptions = {},
): Promise<{ record: TurnRecord; events: EventBody[] }> {
  const agent = specOf(defineAgent("fn", work, options)).create(attemptInit({ attempt: 2, iteration: 3 }));
  const events: EventBody[] = [];
  await agent.start(startOptions());
  const record = await agent.communicate([{ type: "text", text: "hello" }, { type: "image" }], {
    onEvent: (event) => void events.push(event),
  });
  return { record, events };
}

describe("defineAgent", () => {
  it("gives the function its place and the input", async () => {
    const { record } = await run(({ input, text, attempt, iteration, turn, idempotencyKey, signal }) =>
      JSON.stringify({ parts: input.length, text, attempt, iteration, turn, idempotencyKey, aborted: signal.aborted }),
    );
    expect(JSON.parse(record.output)).toEqual({
      parts: 2,
      text: "hello",
      attempt: 2,
      iteration: 3,
      turn: "t1",
      idempotencyKey: "t1~1",
      aborted: false,
    });
  });

  it("adds up the usage of the calls, and guesses none", async () => {
    const { record, events } = await run(({ emit }) => {
      emit.usage({ inputTokens: 10, outputTokens: 1 });
      emit.usage({ inputTokens: 5, costUsd: 0.5 });
      return "x";
    });
    expect(record.usage).toEqual({
      inputTokens: 15,
      outputTokens: 1,
      costUsd: 0.5,
      modelCalls: 2,
      toolCalls: 0,
      known: "reported",
    });
    expect(events.filter((event) => event.type === "usage")).toHaveLength(2);
  });

  it.each([true, false])(
    "a call that is told of, and whose usage is not, leaves the usage partial (announced: %s)",
    async (announcesCalls) => {
      const { record } = await run(
        async ({ emit }) => {
          await emit.call("m");
          emit.usage({ inputTokens: 10 });
          await emit.call("m");
          return "x";
        },
        { announcesCalls },
      );
      expect(record.usage).toMatchObject({ inputTokens: 10, modelCalls: 2, known: "partial" });
    },
  );

  it("what it fails with has no NUL, whichever way it fails", async () => {
    expect(failure("agent_crash", "boom\u0000", { cause: "why\u0000" })).toMatchObject({
      message: "boom\ufffd",
      cause: { message: "why\ufffd" },
    });
    const answered = await run(() => ({
      failure: { code: "agent_error", message: "a\u0000b", retryable: false, cause: { message: "c\u0000" } },
    }));
    expect(answered.record.failure).toMatchObject({ message: "a\ufffdb", cause: { message: "c\ufffd" } });
  });

  it.each([
    ["names no amount", {}],
    ["is in other words", { prompt_tokens: 5 }],
    ["is negative", { inputTokens: -1 }],
    ["is undefined", { inputTokens: undefined }],
  ])("a report that %s leaves the usage not fully known", async (_name, report) => {
    const { record } = await run(({ emit }) => {
      emit.usage({ inputTokens: 10 });
      emit.usage(report as never);
      return "x";
    });
    expect(record.usage).toMatchObject({ inputTokens: 10, modelCalls: 2, known: "partial" });
  });

  it("runs tools between their start and their end, and passes on what they throw", async () => {
    const { record } = await run(async ({ emit }) => {
      const four = await emit.tool("add", { a: 1, b: 3 }, () => 4);
      await expect(
        emit.tool("fail", {}, () => {
          throw new Error("broken");
        }),
      ).rejects.toThrow("broken");
      emit.toolEnd(emit.toolStart("ask"), undefined, "denied");
      emit.stepEnd({ program: "add(1, 3)", success: false });
      emit.plan([{ text: "think", status: "completed" }]);
      return String(four);
    });
    expect(record.steps[0]).toMatchObject({ program: "add(1, 3)", success: false });
    expect(record.steps[0]?.toolCalls.map(({ name, status, result }) => [name, status, result])).toEqual([
      ["add", "ok", 4],
      ["fail", "error", "broken"],
      ["ask", "denied", undefined],
    ]);
    expect(record.plan).toEqual([{ text: "think", status: "completed" }]);
    expect(record.output).toBe("4");
  });

  it.each([
    ["an object of answer, confidence", { answer: 42, confidence: 1 }],
    ["an empty object", {}],
    ["a list", ["42"]],
  ])("an answer that is %s instead of text fails at once, and says that it must be text", async (what, answer) => {
    const { record } = await run(({ emit }) => {
      emit.usage({ outputTokens: 2 });
      return answer as never;
    });
    expect(record).toMatchObject({
      status: "failed",
      crashed: false,
      usage: { outputTokens: 2 },
      failure: { code: "agent_error", retryable: false, message: expect.stringContaining("must be text") as string },
    });
    expect(record.failure?.message).toContain(what);
    // U22: how to give it
    expect(record.failure?.message).toContain("return { output: JSON.stringify(answer) }");
  });

  it("an object beside what was already said is no failure: the text is the answer", async () => {
    const { record } = await run(({ emit }) => {
      emit.text("said");
      return { id: "msg_1" } as never;
    });
    expect(record).toMatchObject({ status: "completed", output: "said" });
  });

  it("a function that never asks can say so, and limits that need it are refused", () => {
    const deaf = specOf(defineAgent("deaf", () => "x", { cooperativeStop: false }));
    expect(unsupportedLimits(deaf.abilities, { maxSteps: 3, maxTokens: 5 })).toMatch(
      /limits\.maxSteps, limits\.maxTokens need/,
    );
    expect(unsupportedLimits(deaf.abilities, {})).toBeUndefined();
    expect(unsupportedLimits(specOf(defineAgent("kind", () => "x")).abilities, { maxSteps: 3 })).toBeUndefined();
  });

  it("is known as an agent, also when another copy of the package made it", () => {
    const foreign = { [Symbol.for("turnq.agent")]: 1, name: "x", run: () => "x" };
    expect([defineAgent("x", () => "x"), foreign, {}, null, "x"].map(isDefinedAgent)).toEqual([
      true,
      true,
      false,
      false,
      false,
    ]);
  });

  it("has its own name as its lane unless someone says otherwise", () => {
    const value = defineAgent("x", () => "x", { limits: { timeoutMs: 5, graceMs: 1 }, retry: { maxAttempts: 2 } });
    expect(specOf(value)).toMatchObject({
      name: "x",
      lane: "x",
      kind: "value",
      limits: { timeoutMs: 5 },
      retry: { maxAttempts: 2 },
    });
    expect(specOf(value, { name: "y", lane: "slow", limits: { timeoutMs: 9 } })).toMatchObject({
      name: "y",
      lane: "slow",
      limits: { timeoutMs: 9, graceMs: 1 },
    });
    expect(specOf(defineAgent("x", () => "x", { lane: "own" })).lane).toBe("own");
  });

  it("a lost attempt can be exact where the function announces its calls", async () => {
    const { record } = await run(
      ({ emit }) => {
        void emit.call("m-1");
        emit.usage({ outputTokens: 2 });
        void emit.call("m-1");
        return "x";
      },
      { announcesCalls: true },
    );
    expect(record).toMatchObject({ model: "m-1", usage: { modelCalls: 2, known: "partial" } });
  });
});
