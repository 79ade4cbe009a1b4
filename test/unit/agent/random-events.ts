import fc from "fast-check";
import { toJson, type Json } from "../../../src/domain/json.ts";
import type { EventBody } from "../../../src/domain/turn-event.ts";
import type { Usage } from "../../../src/domain/usage.ts";

const id = fc.constantFrom("a", "b", "c");
const thread = fc.constantFrom(
  {},
  {},
  {},
  { threadId: "sub", parentThreadId: "root" },
  { threadId: "deep", parentThreadId: "sub" },
  { threadId: "main" },
);
const text = fc.oneof(
  fc.string(),
  fc.string({ unit: "binary", maxLength: 8 }),
  fc.constant("\ud83d"),
  fc.constant("a\u0000b"),
);
/** As the gate gives it to a collector: JSON has no -0. */
const json: fc.Arbitrary<Json> = fc.jsonValue().map(toJson);
const tokens = fc.option(fc.nat(1000), { nil: undefined });

/** Usage as an agent may report it: any of the amounts, or none. */
export const anyUsage: fc.Arbitrary<Usage> = fc
  .record({
    inputTokens: tokens,
    outputTokens: tokens,
    cacheReadTokens: tokens,
    reasoningTokens: tokens,
    costUsd: fc.option(
      fc.integer({ min: 0, max: 10 ** 10 }).map((units) => units / 1e9),
      { nil: undefined },
    ),
    modelCalls: fc.nat(4),
    toolCalls: fc.nat(4),
    known: fc.constantFrom("reported", "partial", "unknown"),
  })
  .map((usage) => Object.fromEntries(Object.entries(usage).filter(([, value]) => value !== undefined)) as Usage);

/** One event, in no order and with no regard for what is open. */
export const anyEvent: fc.Arbitrary<EventBody> = fc
  .tuple(
    fc.oneof(
      fc.record({ type: fc.constant("agent_start" as const), agent: id }),
      fc.record({ type: fc.constant("step_start" as const), number: fc.integer({ min: 1, max: 5 }) }),
      fc.record({ type: fc.constant("call_start" as const) }),
      fc.record({ type: fc.constant("text_delta" as const), text }),
      fc.record({ type: fc.constant("thought_delta" as const), text }),
      fc.record({
        type: fc.constant("tool_start" as const),
        id,
        name: id,
        args: json,
      }),
      fc.record({
        type: fc.constant("tool_end" as const),
        id,
        status: fc.constantFrom("ok", "error", "denied", "unresolved"),
        result: json,
      }),
      fc.record({
        type: fc.constant("plan" as const),
        plan: fc.array(fc.record({ text, status: fc.constantFrom("pending", "completed") }), { maxLength: 2 }),
      }),
      fc.record({ type: fc.constant("usage" as const), usage: anyUsage }),
      fc.record({
        type: fc.constant("step_end" as const),
        number: fc.integer({ min: 1, max: 5 }),
        success: fc.boolean(),
      }),
    ),
    thread,
  )
  .map(([event, place]) => ({ ...event, ...place }) as EventBody);

/** A stream of events that was cut anywhere. */
export const anyEvents = fc.array(anyEvent, { maxLength: 40 });
