import fc from "fast-check";
import type { Message } from "../../../src/domain/message.ts";
import { AttemptStatus } from "../../../src/domain/turn-record.ts";
import type { Usage } from "../../../src/domain/usage.ts";

const amount = fc.integer({ min: 0, max: 1_000_000 });

// As costs are kept: to the billionth of a dollar.
const cost = fc.integer({ min: 0, max: 10 ** 13 }).map((units) => units / 1e9);

export const usage: fc.Arbitrary<Usage> = fc
  .record(
    {
      inputTokens: amount,
      outputTokens: amount,
      cacheReadTokens: amount,
      cacheWriteTokens: amount,
      reasoningTokens: amount,
      costUsd: cost,
      modelCalls: amount,
      toolCalls: amount,
      known: fc.constantFrom("reported" as const, "partial" as const, "unknown" as const),
    },
    { requiredKeys: ["modelCalls", "toolCalls", "known"] },
  )
  .map((fields): Usage => ({ ...fields }));

export const attemptStatus = fc.constantFrom(...AttemptStatus.options);

/** Text with every kind of code unit, lone surrogates too. */
export const anyText = fc
  .string({ unit: "binary", maxLength: 30 })
  .chain((text) => fc.constantFrom(text, `${text}\ud83d`, `\ude00${text}`, `${text}😀`, `\u0000${text}`));

const callId = fc.constantFrom("a", "b", "c", "d");

const contents: readonly Message["content"][] = [
  "",
  "text",
  [],
  [{ type: "text", text: "" }],
  [{ type: "image", url: "x" }],
];

const plain: fc.Arbitrary<Message> = fc.record({
  role: fc.constantFrom("user", "system"),
  content: fc.string({ maxLength: 5 }),
});
const assistant: fc.Arbitrary<Message> = fc.record({
  role: fc.constant("assistant"),
  content: fc.constantFrom(...contents),
  toolCalls: fc.array(
    callId.map((id) => ({ id, name: "tool", args: {} })),
    { maxLength: 3 },
  ),
});
const tool: fc.Arbitrary<Message> = fc.record({
  role: fc.constant("tool"),
  content: fc.constant("result"),
  toolCallId: callId,
});
const stray: fc.Arbitrary<Message> = fc.constant({ role: "tool", content: "without an id" });

/** Messages in any order, with calls and results that need not fit together. */
export const messages: fc.Arbitrary<Message[]> = fc.array(fc.oneof(plain, assistant, tool, stray), { maxLength: 14 });
