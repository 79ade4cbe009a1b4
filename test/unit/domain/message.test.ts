import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Message, Part, textOf, validHistory } from "../../../src/domain/message.ts";
import { messages } from "./arbitraries.ts";

const call = (id: string) => ({ id, name: "tool", args: {} });
const asks = (...ids: string[]): Message => ({ role: "assistant", content: "", toolCalls: ids.map(call) });
const answers = (id: string): Message => ({ role: "tool", content: `result of ${id}`, toolCallId: id });
const user: Message = { role: "user", content: "go on" };

/** Each call is answered once in the run of tool messages right behind it, and nothing else is in that run. */
function expectValid(history: readonly Message[]): void {
  for (let at = 0; at < history.length;) {
    const message = history[at];
    at += 1;
    expect(message?.role).not.toBe("tool");
    const results: (string | undefined)[] = [];
    while (history[at]?.role === "tool") results.push(history[at++]?.toolCallId);
    const calls = (message?.toolCalls ?? []).map((one) => one.id);
    expect(new Set(results)).toEqual(new Set(calls));
    expect([new Set(calls).size, results.length]).toEqual([calls.length, calls.length]);
  }
}

describe("validHistory", () => {
  test("C27 leaves no call without its result and no result without its call, whatever is cut where", () => {
    fc.assert(
      fc.property(messages, (list) => {
        const valid = validHistory(list);
        expectValid(valid);
        expect(validHistory(valid)).toEqual(valid);
        expect(valid.every((message) => Message.safeParse(message).success)).toBe(true);
      }),
    );
  });

  test("a valid history is left as it is", () => {
    const list: Message[] = [
      user,
      asks("a", "b"),
      answers("b"),
      answers("a"),
      { role: "assistant", content: "done" },
      user,
    ];
    expect(validHistory(list)).toEqual(list);
  });

  test("C27 an interrupted call goes with its message, one of several without it", () => {
    expect(validHistory([user, asks("a")])).toEqual([user]);
    expect(validHistory([user, asks("a", "b"), answers("a")])).toEqual([user, asks("a"), answers("a")]);
    expect(validHistory([user, { ...asks("a"), content: "I look." }])).toEqual([
      user,
      { role: "assistant", content: "I look." },
    ]);
  });

  test("a result in front of its call, behind another message, or twice is no result", () => {
    expect(validHistory([answers("a"), asks("a")])).toEqual([]);
    expect(validHistory([asks("a"), user, answers("a")])).toEqual([user]);
    expect(validHistory([asks("a"), answers("a"), answers("a")])).toEqual([asks("a"), answers("a")]);
    expect(validHistory([asks("a"), asks("a"), answers("a")])).toEqual([asks("a"), answers("a")]);
  });

  test("an assistant message without text is dropped, one with an image is not", () => {
    const picture: Message = { role: "assistant", content: [{ type: "image", url: "x" }] };
    expect(validHistory([{ role: "assistant", content: "" }, { role: "assistant", content: [] }, picture])).toEqual([
      picture,
    ]);
  });
});

describe("parts", () => {
  test("a text part holds only its text, others pass through as they are", () => {
    expect(Part.safeParse({ type: "text", text: "x" }).success).toBe(true);
    for (const bad of [
      { type: "text" },
      { type: "text", text: 1 },
      { type: "text", text: "x", more: 1 },
      { text: "x" },
      "x",
      null,
      [],
    ]) {
      expect(Part.safeParse(bad).success).toBe(false);
    }
    expect(Part.safeParse({ type: "image", size: 1n }).success).toBe(false);
    expect(Part.safeParse({ type: "image", alt: undefined }).success).toBe(true);
  });

  test("D26 a prototype key in a part is kept as a plain field", () => {
    const text = '{"role":"user","content":[{"type":"image","__proto__":{"a":1}}]}';
    expect(JSON.stringify(Message.parse(JSON.parse(text)))).toBe(text);
  });

  test("the text of a message is its text parts", () => {
    expect(textOf("plain")).toBe("plain");
    expect(
      textOf([
        { type: "text", text: "a" },
        { type: "image", text: "no" },
        { type: "text", text: "b" },
      ]),
    ).toBe("ab");
  });
});
