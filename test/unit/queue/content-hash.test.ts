import fc from "fast-check";
import { expect, test } from "vitest";
import type { TurnRequest } from "../../../src/domain/turn-request.ts";
import { contentDifference, contentHash } from "../../../src/queue/content-hash.ts";
import { storedRequest } from "../../agents.ts";

const base: TurnRequest = {
  agent: "a",
  input: "hi",
  session: "s",
  target: "4",
  expect: [{ type: "equals", value: "4" }],
  options: { b: 1, a: { d: [1, 2], c: null } },
};

test("the order of keys does not count, and neither does an undefined field", () => {
  const turned = {
    options: { a: { c: null, d: [1, 2] }, b: 1 },
    expect: [{ value: "4", type: "equals" }],
    target: "4",
    session: "s",
    input: "hi",
    agent: "a",
  } as TurnRequest;
  expect(contentHash(turned)).toBe(contentHash(base));
  expect(contentDifference(turned, base)).toEqual([]);
  expect(contentHash({ agent: "a", input: "x", options: { a: undefined } } as unknown as TurnRequest)).toBe(
    contentHash({ agent: "a", input: "x", options: {} }),
  );
});

test.each<[string, Partial<TurnRequest>]>([
  ["agent", { agent: "b" }],
  ["input", { input: "ho" }],
  ["input", { input: [{ type: "text", text: "hi" }] }],
  ["session", { session: "t" }],
  ["target", { target: 4 }],
  ["expect", { expect: [{ type: "includes", value: "4" }] }],
  ["options", { options: { b: 1, a: { d: [2, 1], c: null } } }],
])("another %s is another turn, and the difference names it", (field, more) => {
  const other = { ...base, ...more };
  expect(contentHash(other)).not.toBe(contentHash(base));
  expect(contentDifference(base, other)).toEqual([field]);
});

test("limits, retry, labels, metadata, lane, id and batch are no content, and defaults of the configuration neither", () => {
  const more: TurnRequest = {
    ...base,
    id: "x",
    lane: "l",
    limits: { timeoutMs: 1 },
    retry: { maxAttempts: 9 },
    labels: { a: "b" },
    metadata: { a: 1 },
    batch: { id: "b", sample: "1", epoch: 1 },
  };
  expect(contentHash(more)).toBe(contentHash(base));
  const { agent, input, session = "", target = "", expect: checks = [], options = {} } = base;
  expect(contentHash(storedRequest({ agent, input, session, target, expect: checks, options }))).toBe(
    contentHash(base),
  );
});

test("fields cannot run into one another", () => {
  expect(contentHash({ agent: "a", input: "b", session: "c" })).not.toBe(contentHash({ agent: "a", input: "bc" }));
  expect(contentHash({ agent: "a", input: "null" })).not.toBe(contentHash({ agent: "a", input: "" }));
});

test("property: a copy through JSON has the same hash, and hashes are short and safe in an argument", () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.string(), (options, input) => {
      const request = JSON.parse(JSON.stringify({ agent: "a", input, options })) as TurnRequest;
      expect(contentHash(JSON.parse(JSON.stringify(request)) as TurnRequest)).toBe(contentHash(request));
      expect(contentHash(request)).toMatch(/^[\w-]{22}$/);
    }),
  );
});
