import { isDeepStrictEqual } from "node:util";
import { describe, expect, it } from "vitest";
import type { Json } from "../../../src/domain/json.ts";
import type { TurnEvent } from "../../../src/domain/turn-event.ts";
import type { TurnRecord } from "../../../src/domain/turn-record.ts";
import { Agent, type AgentInit, type TurnAnswer } from "../../../src/agent/agent.ts";
import { agentClassSpec } from "../../../src/agent/class-spec.ts";
import type { AgentCall } from "../../../src/agent/define-agent.ts";
import { decode, encode, type StoredAttempt } from "../../../src/ledger/codec.ts";
import { BOUND_MS, fn, scene } from "./attempt-scene.ts";

const cycle: Record<string, unknown> = { name: "around" };
cycle["self"] = cycle;
const boom = (): never => {
  throw new Error("cannot be read");
};

/** What an agent may hand over that JSON cannot carry, or carries as something else: as `docs/reference.md` says it comes through. */
const ODD: Readonly<Record<string, { readonly value: unknown; readonly stored: Json | undefined }>> = {
  BigInt: { value: 2n ** 70n, stored: "1180591620717411303424" },
  NaN: { value: Number.NaN, stored: "NaN" },
  infinity: { value: -Infinity, stored: "-Infinity" },
  "minus zero": { value: -0, stored: 0 },
  undefined: { value: undefined, stored: undefined },
  null: { value: null, stored: null },
  symbol: { value: Symbol("s"), stored: "[Symbol(s)]" },
  function: { value: function named() {}, stored: "[function named]" },
  "a cycle": { value: cycle, stored: { name: "around", self: "[cycle]" } },
  "a field that is undefined": { value: { a: undefined, b: 1 }, stored: { b: 1 } },
  "a lone surrogate": { value: "a\ud800b", stored: "a\ufffdb" },
  NUL: { value: "a\u0000b", stored: "a\ufffdb" },
  "a key with a lone surrogate": { value: { "a\udfff": 1 }, stored: { "a\ufffd": 1 } },
  Map: { value: new Map<unknown, unknown>([["k", 1n]]), stored: [["k", "1"]] },
  Set: { value: new Set([1, Number.NaN]), stored: [1, "NaN"] },
  Date: { value: new Date(0), stored: "1970-01-01T00:00:00.000Z" },
  "a Date that is none": { value: new Date(Number.NaN), stored: "Invalid Date" },
  bytes: { value: new Uint8Array([1, 2]), stored: "AQI=" },
  "an Error": { value: new RangeError("far"), stored: { name: "RangeError", message: "far" } },
  "toJSON that throws": { value: { toJSON: boom }, stored: "[unreadable]" },
  "a getter that throws": {
    value: {
      get x() {
        return boom();
      },
    },
    stored: "[unreadable]",
  },
  "a proxy that throws": { value: new Proxy({}, { ownKeys: boom }), stored: "[unreadable]" },
  "a key __proto__": {
    value: JSON.parse('{"__proto__": {"polluted": 1}}') as unknown,
    stored: JSON.parse('{"__proto__": {"polluted": 1}}') as Json,
  },
  "no prototype": { value: Object.assign(Object.create(null) as object, { a: 1 }), stored: { a: 1 } },
  "a list with holes": { value: Object.assign([], { 2: "x" }), stored: [null, null, "x"] },
};

/** Where an agent can give a value. Each place leaves the attempt's success to its answer, "fine". */
const PLACES: Readonly<Record<string, (call: AgentCall, odd: never) => unknown>> = {
  text: ({ emit }, odd) => emit.text(odd),
  thought: ({ emit }, odd) => emit.thought(odd),
  "a tool's name": ({ emit }, odd) => emit.toolEnd(emit.toolStart(odd, {})),
  "a tool's args": ({ emit }, odd) => emit.toolEnd(emit.toolStart("t", odd)),
  "a tool's id": ({ emit }, odd) => emit.toolEnd(emit.toolStart("t", {}, odd)),
  "a tool's result": ({ emit }, odd) => emit.toolEnd(emit.toolStart("t"), odd),
  "a tool's status": ({ emit }, odd) => emit.toolEnd(emit.toolStart("t"), 1, odd),
  "what a tool gives": ({ emit }, odd) => emit.tool("t", odd, () => odd),
  "what a tool throws": ({ emit }, odd) =>
    emit
      .tool("t", {}, () => {
        // oxlint-disable-next-line typescript/only-throw-error
        throw odd;
      })
      .catch(() => undefined),
  "a plan": ({ emit }, odd) => emit.plan(odd),
  "a plan's step": ({ emit }, odd) => emit.plan([{ text: odd, status: "pending" }]),
  usage: ({ emit }, odd) => emit.usage(odd),
  "a figure of usage": ({ emit }, odd) => emit.usage({ inputTokens: odd, outputTokens: 1 }),
  "the model of a call": ({ emit }, odd) => emit.call(odd),
  "an event": ({ emit }, odd) => emit.event(odd),
  "a field of an event": ({ emit }, odd) => emit.event({ type: "step_start", number: odd }),
  "the details of a step": ({ emit }, odd) => (emit.text("x"), emit.stepEnd(odd)),
  "a step's result": ({ emit }, odd) => (emit.text("x"), emit.stepEnd({ result: odd, memory: odd })),
  "a step's texts": ({ emit }, odd) => (
    emit.text("x"),
    emit.stepEnd({ rawResponse: odd, program: odd, systemPrompt: odd })
  ),
  "a step's prints": ({ emit }, odd) => (emit.text("x"), emit.stepEnd({ prints: [odd] })),
  "a step's messages": ({ emit }, odd) => (
    emit.text("x"),
    emit.stepEnd({ messages: [{ role: "user", content: odd }, odd] })
  ),
  "a step's type and success": ({ emit }, odd) => (emit.text("x"), emit.stepEnd({ type: odd, success: odd })),
};

/** What an attempt's account is once it was stored and read again: the same, or it would be another one's. */
function stored(record: TurnRecord, events: readonly TurnEvent[]): TurnRecord {
  const attempt: StoredAttempt = { v: 1, record, events: [...events] };
  const bytes = Buffer.from(encode("attempt", attempt));
  const read = decode("attempt", bytes, "test");
  expect(isDeepStrictEqual(read, JSON.parse(JSON.stringify(attempt)))).toBe(true);
  expect(isDeepStrictEqual(read, attempt)).toBe(true);
  return read.record;
}

async function played(run: Parameters<typeof fn>[0]): Promise<TurnRecord> {
  const { after, events } = scene(fn(run));
  const { record } = await after(BOUND_MS);
  return stored(
    record,
    events.map((body, i) => ({ turn: "t1", attempt: 2, seq: i + 1, at: 0, ...body })),
  );
}

describe.each(Object.entries(ODD))("A26, C42: %s", (_name, { value, stored: as }) => {
  const odd = value as never;

  it.each(Object.entries(PLACES))("given as %s costs no second run", async (_place, give) => {
    const record = await played(async (call) => {
      await give(call, odd);
      return { output: "fine" };
    });
    expect(record).toMatchObject({ status: "completed", crashed: false });
    expect(record.output).toBe("fine");
  });

  it("comes through as stated: as a tool's args and result, a step's result, memory", async () => {
    const record = await played(({ emit }) => {
      emit.toolEnd(emit.toolStart("t", { odd }), { odd });
      emit.stepEnd({ result: { odd }, memory: { odd } });
      return "fine";
    });
    const due = as === undefined ? {} : { odd: as };
    const { toolCalls, result, memory } = record.steps[0] ?? { toolCalls: [] };
    for (const found of [toolCalls[0]?.args, toolCalls[0]?.result, result, memory])
      expect(JSON.stringify(found)).toBe(JSON.stringify(due));
  });

  it("as the whole answer, or its output, messages or failure, ends the attempt with what there is", async () => {
    for (const answer of [
      odd,
      { output: odd },
      { output: "fine", messages: odd },
      { output: "fine", messages: [odd] },
    ]) {
      const record = await played(({ emit }) => (emit.text("said"), answer) as never);
      expect([record.status, record.crashed]).toEqual(["completed", false]);
    }
    const failing = await played(() => ({ output: "fine", failure: odd }));
    expect(["completed", "failed"]).toContain(failing.status);
  });

  it("as what is thrown, or its message, is a crash with a text", async () => {
    for (const thrown of [odd, Object.assign(new Error("x"), { message: odd, failure: odd, code: odd, cause: odd })]) {
      const record = await played(() => {
        // oxlint-disable-next-line typescript/only-throw-error
        throw thrown;
      });
      expect(record).toMatchObject({
        status: "crashed",
        failure: { code: "agent_crash", message: expect.any(String) },
      });
    }
  });

  it("in an agent's class: its answer and what it says of its environment", async () => {
    class Odd extends Agent<undefined> {
      constructor(init: AgentInit<undefined>) {
        super(init);
      }
      override getEnvironmentInfo(): { [key: string]: Json } {
        return { odd };
      }
      protected override takeTurn(): Promise<TurnAnswer> {
        return Promise.resolve({ output: odd === undefined ? "" : odd });
      }
    }
    const { record } = await scene(agentClassSpec("odd", Odd, undefined)).after(BOUND_MS);
    expect(record).toMatchObject({ status: "completed" });
    expect(JSON.stringify(stored(record, []).environment)).toBe(JSON.stringify(as === undefined ? {} : { odd: as }));
    class Whole extends Odd {
      override getEnvironmentInfo(): { [key: string]: Json } {
        return odd;
      }
    }
    const whole = (await scene(agentClassSpec("odd", Whole, undefined)).after(BOUND_MS)).record;
    expect(whole.status).toBe("completed");
    stored(whole, []);
  });
});

it("U22: usage of which no figure can be used is unknown, and partial beside one that can", async () => {
  const useless = { inputTokens: Number.NaN, outputTokens: -5 };
  const none = await played(({ emit }) => (emit.usage(useless), "fine"));
  expect(none.usage).toEqual({ modelCalls: 1, toolCalls: 0, known: "unknown" });
  const some = await played(({ emit }) => (emit.usage({ ...useless, costUsd: 0.5 }), "fine"));
  expect(some.usage).toEqual({ costUsd: 0.5, modelCalls: 1, toolCalls: 0, known: "partial" });
  const both = await played(({ emit }) => {
    emit.usage(useless);
    emit.usage({ inputTokens: 3 });
    return "fine";
  });
  expect(both.usage).toEqual({ inputTokens: 3, modelCalls: 2, toolCalls: 0, known: "partial" });
});

it("A26: figures of usage that are none are unknown, not 0, and a sum that lacks them says so", async () => {
  const record = await played(({ emit }) => {
    emit.usage({ inputTokens: 10, outputTokens: 5 });
    emit.usage({ inputTokens: Number.NaN, outputTokens: 7 });
    return "fine";
  });
  expect(record.usage).toMatchObject({ inputTokens: 10, outputTokens: 12, known: "partial" });
  const raw = await played(({ emit }) => {
    emit.event({ type: "usage", usage: { inputTokens: 10, modelCalls: 1, toolCalls: 0, known: "reported" } });
    emit.event({
      type: "usage",
      usage: { inputTokens: -1, outputTokens: 3, modelCalls: 2, toolCalls: 0, known: "reported" },
    });
    return "fine";
  });
  expect(raw.usage).toMatchObject({ inputTokens: 10, outputTokens: 3, modelCalls: 2, known: "partial" });
});
