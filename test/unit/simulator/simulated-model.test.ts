import { describe, expect, test } from "vitest";
import type { ChatRequest } from "../../../src/simulator/chat-request.ts";
import { modelSettings, type ModelSettingsInput } from "../../../src/simulator/model-settings.ts";
import { SimulatedModel, type Reply } from "../../../src/simulator/simulated-model.ts";

const ANSWERS = new Map([
  ["2+2?", "It is 4"],
  ["sky?", "blue"],
]);

function model(settings: ModelSettingsInput = {}): SimulatedModel {
  return new SimulatedModel("m", modelSettings(settings), ANSWERS);
}

function ask(text: string, more: Partial<ChatRequest> = {}): ChatRequest {
  return { model: "m", messages: [{ role: "user", content: text }], ...more };
}

function said(reply: Reply): string {
  if (reply.kind !== "answer") throw new Error(`it is ${reply.kind}`);
  return reply.pieces.join("");
}

describe("what a simulated model says", () => {
  test("is the right answer as often as asked, by the seed and how often the question came", () => {
    const one = model({ accuracy: 0.8, seed: 3 });
    const two = model({ accuracy: 0.8, seed: 3 });
    const other = model({ accuracy: 0.8, seed: 4 });
    const answers = Array.from({ length: 500 }, () => said(one.reply(ask("2+2?"))));
    expect(Array.from({ length: 500 }, () => said(two.reply(ask("2+2?"))))).toEqual(answers);
    expect(Array.from({ length: 500 }, () => said(other.reply(ask("2+2?"))))).not.toEqual(answers);
    const right = answers.filter((answer) => answer === "It is 4").length / answers.length;
    // 500 draws at 0.8: four standard deviations are 0.07.
    expect(right).toBeGreaterThan(0.73);
    expect(right).toBeLessThan(0.87);
  });

  test("where it is wrong has another number, or says that it is not sure", () => {
    const never = model({ accuracy: 0 });
    expect(said(never.reply(ask("2+2?")))).toMatch(/^It is ([5-9]|1[0-3])$/);
    expect(said(never.reply(ask("sky?")))).toBe("I am not sure.");
  });

  test("says that it is simulated where it knows nothing", () => {
    expect(said(model().reply(ask("unheard of")))).toContain("simulated");
  });

  test("ends at the token limit, and says so", () => {
    const reply = model({ accuracy: 1 }).reply(ask("2+2?", { max_tokens: 1 }));
    expect(reply).toMatchObject({ finish: "length", pieces: ["It i"] });
  });
});

describe("tools", () => {
  const tools = [{ type: "function", function: { name: "add", parameters: {} } }];
  const asked = 'please use the tool add with {"a":1}';

  test("are called once when the user asks for one that is there", () => {
    const reply = model().reply(ask(asked, { tools }));
    expect(reply).toMatchObject({ finish: "tool_calls", tool: { name: "add", args: '{"a":1}' } });
    const messages = [
      { role: "user" as const, content: asked },
      {
        role: "assistant" as const,
        content: null,
        tool_calls: [{ id: "c", function: { name: "add", arguments: "{}" } }],
      },
      { role: "tool" as const, content: "2", tool_call_id: "c" },
    ];
    expect(model().reply({ model: "m", messages, tools })).toMatchObject({ finish: "stop" });
    expect(model().reply(ask(asked))).toMatchObject({ finish: "stop" });
  });
});

describe("tokens", () => {
  test("of a system prompt that was seen before are read from the cache", () => {
    const one = model();
    const messages = [
      { role: "system" as const, content: "be short" },
      { role: "user" as const, content: "2+2?" },
    ];
    const input = (): object | undefined => {
      const reply = one.reply({ model: "m", messages });
      return reply.kind === "answer" ? reply.input : undefined;
    };
    expect(input()).toEqual({ inputTokens: 5 + 4, cacheReadTokens: 0 });
    expect(input()).toEqual({ inputTokens: 4, cacheReadTokens: 5 });
  });
});

describe("faults", () => {
  test("come as often as asked, each kind", () => {
    const faulty = model({ faults: { "429": 0.2, "500": 0.2, hang: 0.2, cut: 0.2, slow: 0.1 } });
    const kinds = Array.from({ length: 1000 }, () => {
      const reply = faulty.reply(ask("2+2?"));
      if (reply.kind === "refused") return String(reply.status);
      if (reply.kind === "hang") return "hang";
      if (reply.cutAfter !== undefined) return "cut";
      return reply.gapMs > 0 ? "slow" : "none";
    });
    const share = (kind: string): number => kinds.filter((found) => found === kind).length / kinds.length;
    for (const kind of ["429", "500", "hang", "cut"]) expect(Math.abs(share(kind) - 0.2)).toBeLessThan(0.06);
    expect(Math.abs(share("slow") - 0.1)).toBeLessThan(0.05);
    expect(Math.abs(share("none") - 0.1)).toBeLessThan(0.05);
  });
});
