import { streamText } from "ai";
import { expect, test } from "vitest";
import { answerParts } from "../../../../src/agents/chat/answer-parts.ts";

function result(): ReturnType<typeof streamText> {
  const count = { total: 1, noCache: 1, cacheRead: undefined, cacheWrite: undefined };
  return streamText({
    prompt: "hello",
    model: {
      specificationVersion: "v3",
      provider: "test",
      modelId: "m",
      supportedUrls: {},
      doGenerate: () => Promise.reject(new Error("not used")),
      doStream: () =>
        Promise.resolve({
          stream: ReadableStream.from([
            { type: "text-start" as const, id: "0" },
            { type: "text-delta" as const, id: "0", delta: "hi" },
            { type: "text-end" as const, id: "0" },
            {
              type: "finish" as const,
              finishReason: { unified: "stop" as const, raw: "stop" },
              usage: { inputTokens: count, outputTokens: { total: 1, text: 1, reasoning: undefined } },
            },
          ]) as ReadableStream<never>,
        }),
    },
  });
}

async function typesOf(parts: AsyncIterator<{ readonly type: string }>): Promise<string[]> {
  const types: string[] = [];
  for (let next = await parts.next(); next.done !== true; next = await parts.next()) types.push(next.value.type);
  return types;
}

test("the parts of an answer are those of fullStream, and no fork of them is kept", async () => {
  const whole = await typesOf(result().fullStream[Symbol.asyncIterator]());
  expect(whole).toContain("text-delta");
  const ours = result();
  expect(await typesOf(answerParts(ours))).toEqual(whole);
  // Another version of the SDK may have no such stream: then this fails, and the memory of a turn is to be measured.
  expect(Reflect.get(ours, "baseStream")).toMatchObject({ locked: true });
});

test("without that stream the parts come from fullStream", async () => {
  const { fullStream } = result();
  expect(await typesOf(answerParts({ fullStream }))).toContain("finish-step");
});

test("who reads no more ends the call", async () => {
  const parts = answerParts(result());
  await parts.next();
  await parts.return?.();
  expect(await parts.next()).toEqual({ done: true, value: undefined });
});
