import { describe, expect, it } from "vitest";
import { LimitsInput } from "../../../src/domain/limits.ts";
import type { Json } from "../../../src/domain/json.ts";
import { CUT_NOTE } from "../../../src/domain/text.ts";
import type { TurnRecord } from "../../../src/domain/turn-record.ts";
import { Agent, type TurnAnswer } from "../../../src/agent/agent.ts";
import { agentClassSpec } from "../../../src/agent/class-spec.ts";
import type { AgentFunction } from "../../../src/agent/define-agent.ts";
import { BOUND_MS, fn, scene } from "./attempt-scene.ts";

const MAX = 5000;
const LONG = "x".repeat(100_000);
/** A text is in a record up to three times: as output, message and step. */
const COPIES = 4;
/** Entries that are kept under a low limit, and what the largest of them, a tool with its messages, weighs. */
const ENTRIES = 1000;
const ENTRY_CHARS = 500;

/** Every way in which an agent can say too much. */
const WAYS: Readonly<Record<string, AgentFunction>> = {
  "a text": ({ emit }) => emit.text(LONG),
  "many texts": ({ emit }) => {
    for (let i = 0; i < 1000; i += 1) emit.text("y".repeat(50));
  },
  "a thought": ({ emit }) => (emit.thought(LONG), "fine"),
  "the answer": () => LONG,
  "an answer beside what was said": ({ emit }) => (emit.text("said"), { output: LONG }),
  messages: () => ({ output: "fine", messages: [{ role: "assistant", content: LONG }] }),
  "many messages": () => ({
    output: "fine",
    messages: Array.from({ length: 2000 }, () => ({ role: "assistant" as const, content: "y".repeat(50) })),
  }),
  "a tool's args": ({ emit }) => (emit.toolEnd(emit.toolStart("t", { a: LONG })), "fine"),
  "a tool's result": ({ emit }) => (emit.toolEnd(emit.toolStart("t"), { a: LONG }), "fine"),
  "a tool's name": ({ emit }) => (emit.toolEnd(emit.toolStart(LONG)), "fine"),
  "many tools": ({ emit }) => {
    for (let i = 0; i < 2000; i += 1) emit.toolEnd(emit.toolStart("t", { i }), { i });
    return "fine";
  },
  "a plan": ({ emit }) => (emit.plan([{ text: LONG, status: "pending" }]), "fine"),
  "a step's data": ({ emit }) => (
    emit.text("fine"),
    emit.stepEnd({ result: LONG, memory: LONG, prints: [LONG], program: LONG, rawResponse: LONG })
  ),
  "many steps": ({ emit }) => {
    for (let i = 0; i < 2000; i += 1) {
      emit.stepStart();
      emit.stepEnd({ memory: { i } });
    }
    return "fine";
  },
  "the model of a call": ({ emit }) => (void emit.call(LONG), "fine"),
};

const sizeOf = (record: TurnRecord, events: readonly object[]): number =>
  Math.max(JSON.stringify(record).length, JSON.stringify(events).length);

describe("D01, limits.maxTranscriptChars: what is over is cut, and the turn ends as it would have", () => {
  it.each(Object.entries(WAYS))("%s", async (way, run) => {
    const { after, events } = scene(fn(run), { maxTranscriptChars: MAX });
    const { record } = await after(BOUND_MS);
    expect([record.status, record.failure]).toEqual(["completed", undefined]);
    const entries = /^many (tools|steps|messages)$/.test(way) ? ENTRIES * ENTRY_CHARS : 5000;
    expect(sizeOf(record, events)).toBeLessThan(COPIES * MAX + entries);
    // A model's name has a limit of its own.
    expect(record.truncated?.includes("transcript") ?? false).toBe(way !== "the model of a call");
  });

  describe("U24: what counts is what is kept, and a cut shows in a field", () => {
    const words =
      (count: number): AgentFunction =>
      ({ emit }) => {
        for (let i = 0; i < count; i += 1) emit.text("word ");
      };

    it("all of a streamed answer that is within the limit", async () => {
      const { record } = await scene(fn(words(500)), { maxTranscriptChars: 10_000 }).after(BOUND_MS);
      expect(record.output).toBe("word ".repeat(500));
      expect(record).not.toHaveProperty("truncated");
      const full = (await scene(fn(words(2000)), { maxTranscriptChars: 10_000 }).after(BOUND_MS)).record;
      expect(full.output).toBe("word ".repeat(2000));
      expect(full).not.toHaveProperty("truncated");
    });

    it("also by default", async () => {
      const { record } = await scene(fn(words(100_000))).after(BOUND_MS);
      expect(record.output).toHaveLength(500_000);
      expect(record).not.toHaveProperty("truncated");
    });

    it("messages that an agent gives as a whole", async () => {
      const messages = Array.from({ length: 50 }, () => ({ role: "assistant" as const, content: "y".repeat(100) }));
      const given = fn(() => ({ output: "fine", messages }));
      const { record } = await scene(given, { maxTranscriptChars: 5000 }).after(BOUND_MS);
      expect(record.messages.filter(({ role }) => role === "assistant")).toHaveLength(50);
      expect(record).not.toHaveProperty("truncated");
      const over = (await scene(given, { maxTranscriptChars: 4999 }).after(BOUND_MS)).record;
      expect(over).toMatchObject({ output: "fine", truncated: ["transcript"] });
    });
  });

  describe("U22: what was cut is said in a field", () => {
    const cutBy = async (run: AgentFunction): Promise<TurnRecord["truncated"]> =>
      (await scene(fn(run), { maxTranscriptChars: MAX }).after(BOUND_MS)).record.truncated;

    it("the output with the text that it is made of", async () => {
      expect(await cutBy(({ emit }) => emit.text(LONG))).toEqual(["output", "transcript"]);
      expect(await cutBy(() => LONG)).toEqual(["output", "transcript"]);
      const messages = [{ role: "assistant" as const, content: LONG }];
      expect(await cutBy(({ emit }) => (emit.thought("t"), { messages }))).toEqual(["output", "transcript"]);
    });

    it("the transcript alone where the answer is whole", async () => {
      expect(await cutBy(({ emit }) => (emit.text(LONG), { output: "the answer" }))).toEqual(["transcript"]);
      expect(await cutBy(({ emit }) => (emit.toolEnd(emit.toolStart("t", LONG)), "whole"))).toEqual(["transcript"]);
      expect(await cutBy(() => "x".repeat(MAX))).toBeUndefined();
    });
  });

  it("a text that is cut says so, in the output and in the messages", async () => {
    const { record } = await scene(
      fn(({ emit }) => emit.text(LONG)),
      { maxTranscriptChars: MAX },
    ).after(BOUND_MS);
    expect(record.output).toMatch(/^x+\n/);
    expect(record.output.endsWith(CUT_NOTE)).toBe(true);
    expect(JSON.stringify(record.messages)).toContain(CUT_NOTE);
  });

  it("what is within it stays whole, and usage is whole also beyond it", async () => {
    const run: AgentFunction = ({ emit }) => {
      for (let i = 0; i < 500; i += 1) emit.usage({ inputTokens: 2 });
      emit.text("z".repeat(90_000));
    };
    const roomy = (await scene(fn(run), { maxTranscriptChars: 1_000_000 }).after(BOUND_MS)).record;
    expect(roomy.output).toHaveLength(90_000);
    const tight = (await scene(fn(run), { maxTranscriptChars: 1000 }).after(BOUND_MS)).record;
    for (const record of [roomy, tight]) expect(record.usage).toMatchObject({ inputTokens: 1000, modelCalls: 500 });
  });

  it("what is thrown, said as a failure, or told of the environment has limits of its own", async () => {
    class Wordy extends Agent<undefined> {
      override getEnvironmentInfo(): { [key: string]: Json } {
        return { log: LONG };
      }
      protected override takeTurn(): Promise<TurnAnswer> {
        throw new Error(LONG, { cause: new Error(LONG) });
      }
    }
    const { after, events } = scene(agentClassSpec("wordy", Wordy, undefined), { maxTranscriptChars: MAX });
    const { record } = await after(BOUND_MS);
    expect(record.status).toBe("crashed");
    expect(record.environment).toEqual({ cut: CUT_NOTE });
    expect(record.crashReason).toHaveLength(200);
    expect(sizeOf(record, events)).toBeLessThan(20_000);
  });

  it("a limit out of reason is refused", () => {
    for (const bad of [999, 32 * 1024 * 1024 + 1, 1000.5, Number.NaN, "5000"])
      expect(LimitsInput.safeParse({ maxTranscriptChars: bad }).success).toBe(false);
    expect(LimitsInput.safeParse({ maxTranscriptChars: 1000 }).success).toBe(true);
  });
});
