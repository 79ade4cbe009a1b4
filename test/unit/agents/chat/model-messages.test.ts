import { expect, test } from "vitest";
import { modelMessages } from "../../../../src/agents/chat/model-messages.ts";
import type { Message } from "../../../../src/domain/message.ts";

const calls = { role: "assistant", content: "", toolCalls: [{ id: "1", name: "look", args: { at: 1 } }] } as const;

test("a session's conversation goes out as it was, tools with their results", () => {
  const history: Message[] = [
    { role: "system", content: "be short" },
    { role: "user", content: "look" },
    { ...calls, toolCalls: [...calls.toolCalls] },
    { role: "tool", content: "seen", toolCallId: "1" },
    { role: "assistant", content: "done" },
  ];
  expect(modelMessages(history, "again")).toEqual([
    { role: "system", content: "be short" },
    { role: "user", content: "look" },
    { role: "assistant", content: [{ type: "tool-call", toolCallId: "1", toolName: "look", input: { at: 1 } }] },
    {
      role: "tool",
      content: [{ type: "tool-result", toolCallId: "1", toolName: "look", output: { type: "text", value: "seen" } }],
    },
    { role: "assistant", content: [{ type: "text", text: "done" }] },
    { role: "user", content: "again" },
  ]);
});

test("C27: a call without its result never goes to a provider", () => {
  const history: Message[] = [
    { role: "user", content: "look" },
    { ...calls, toolCalls: [...calls.toolCalls] },
  ];
  expect(modelMessages(history, "again").map(({ role }) => role)).toEqual(["user", "user"]);
});

test("C42: half a surrogate pair is replaced before it is sent", () => {
  expect(modelMessages([], "a\ud83d")).toEqual([{ role: "user", content: "a\ufffd" }]);
});

test("images and files in the forms that are common; a part that cannot be sent is refused before it costs anything", () => {
  const parts = [
    { type: "text" as const, text: "what is it?" },
    { type: "image_url", image_url: { url: "https://example.com/a.png" } },
    { type: "file", data: "QQ==", mediaType: "application/pdf" },
  ];
  expect(modelMessages([], parts)).toEqual([
    {
      role: "user",
      content: [
        { type: "text", text: "what is it?" },
        { type: "image", image: "https://example.com/a.png" },
        { type: "file", data: "QQ==", mediaType: "application/pdf" },
      ],
    },
  ]);
  expect(() => modelMessages([], [{ type: "hologram" }])).toThrow('a part of type "hologram" cannot be sent');
});
