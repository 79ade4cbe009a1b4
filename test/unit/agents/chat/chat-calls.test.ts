import { setImmediate as turnOfLoop } from "node:timers/promises";
import { expect, test } from "vitest";
import type { AgentTurn } from "../../../../src/agent/ongoing-turn.ts";
import { ChatCalls } from "../../../../src/agents/chat/chat-calls.ts";
import type { Model } from "../../../../src/agents/chat/chat-model.ts";
import { toolSet } from "../../../../src/agents/chat/load-tools.ts";
import type { EventBody } from "../../../../src/domain/turn-event.ts";

const TOOLS = { look: { description: "looks", parameters: { type: "object" }, execute: () => "seen" } };

/** A model that asks for its tool for ever, and says that this took so many tokens. */
function eager(tokens: number | undefined): Model {
  const inputTokens = { total: tokens, noCache: tokens, cacheRead: undefined, cacheWrite: undefined };
  const outputTokens = { total: tokens, text: undefined, reasoning: undefined };
  return {
    specificationVersion: "v3",
    provider: "test",
    modelId: "m",
    supportedUrls: {},
    doGenerate: () => Promise.reject(new Error("not used")),
    doStream: () =>
      Promise.resolve({
        stream: ReadableStream.from([
          { type: "stream-start" as const, warnings: [] },
          { type: "tool-call" as const, toolCallId: "1", toolName: "look", input: "{}" },
          {
            type: "finish" as const,
            finishReason: { unified: "tool-calls" as const, raw: "tool_calls" },
            usage: { inputTokens, outputTokens },
          },
        ]) as ReadableStream<never>,
      }),
  };
}

/** A turn that stops after so many tokens, and what was done in it. */
function scene(tokens: number | undefined, enough: number): { readonly calls: ChatCalls; readonly done: string[] } {
  const done: string[] = [];
  let used = 0;
  const { signal } = new AbortController();
  const turn = {
    signal,
    emit: (event: EventBody) => {
      if (event.type === "usage") used = event.usage.outputTokens ?? 0;
      done.push(event.type);
    },
    announceCall: async () => {
      done.push("call_start");
      return true;
    },
    shouldStop: () => (used >= enough ? ("max_tokens" as const) : undefined),
    endStep: () => void done.push("step_end"),
  };
  const context = { turn: "t1", attempt: 1, idempotencyKey: "t1~1", signal };
  const settings = { model: eager(tokens), prompt: "look", tools: toolSet(TOOLS, context) };
  const calls = new ChatCalls(
    turn as unknown as AgentTurn,
    { chat: {}, price: undefined, secrets: [] },
    { model: "m", settings },
  );
  return { calls, done };
}

test("a limit counts what the step before has used: no call is made beyond it", async () => {
  const { calls, done } = scene(4, 8);
  expect(await calls.play()).toBe(true);
  const step = ["call_start", "tool_start", "tool_end", "usage", "step_end"];
  expect(done).toEqual([...step, ...step]);
});

test("a turn that fails makes no call any more: nobody would book what it costs", async () => {
  const { calls, done } = scene(undefined, 1);
  await expect(calls.play()).rejects.toThrow("without any tokens");
  // Whatever the SDK would go on to do, it does in one of these.
  for (let n = 0; n < 50; n += 1) await turnOfLoop();
  expect(done.filter((type) => type === "call_start")).toHaveLength(1);
});
