import { deflateSync } from "node:zlib";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decode, encode } from "../../../src/ledger/codec.ts";
import { storedRequest } from "../../agents.ts";
import { testEvents, testRecord } from "../../lane.ts";
import type { TurnFacts } from "../../../src/ledger/ledger.ts";

/** What Redis gives back of it. */
function bytesOf(...stored: Parameters<typeof encode>): Buffer {
  const bytes = encode(...stored);
  return typeof bytes === "string" ? Buffer.from(bytes) : bytes;
}

const facts: TurnFacts = {
  request: storedRequest(),
  generation: 1,
  firstAttempt: 1,
  spent: 0,
  crashes: 0,
  seq: 0,
  rev: 0,
  submittedAt: 0,
  startedAt: 0,
  attempts: [],
};
const ZLIB = 0x78;

test("property: a request of any size and text is read as it was written", () => {
  fc.assert(
    fc.property(
      fc.string({ unit: "grapheme", minLength: 1, maxLength: 200 }),
      fc.integer({ min: 1, max: 100 }),
      fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 4 })),
      (text, times, options) => {
        const request = storedRequest({ input: text.repeat(times), options: JSON.parse(JSON.stringify(options)) });
        const bytes = bytesOf("request", request);
        expect(decode("request", bytes, "here")).toEqual(request);
      },
    ),
  );
});

test("4 KB of JSON is stored as it is, more is compressed", () => {
  const small = bytesOf("request", storedRequest({ input: "x".repeat(3000) }));
  expect(small[0]).toBe("{".charCodeAt(0));
  const large = bytesOf("request", storedRequest({ input: "x".repeat(50_000) }));
  expect(large[0]).toBe(ZLIB);
  expect(large.length).toBeLessThan(1000);
  expect(decode("request", large, "here").input).toHaveLength(50_000);
});

test("an attempt keeps its record and its events", () => {
  const stored = {
    v: 1 as const,
    record: testRecord({ attempt: 1, iteration: 1, facts }),
    events: testEvents("t1", 1, 0, { type: "text_delta", text: "a" }, { type: "rolled_back", reason: "crashed" }),
  };
  expect(decode("attempt", bytesOf("attempt", stored), "here")).toEqual(stored);
});

test("D26: a key __proto__ stays an ordinary field and touches no prototype", () => {
  const request = storedRequest({
    options: JSON.parse('{"__proto__": {"polluted": 1}, "constructor": {"prototype": {"polluted": 1}}}'),
  });
  const read = decode("request", bytesOf("request", request), "here");
  expect(JSON.stringify(read.options)).toBe(JSON.stringify(request.options));
  expect(Reflect.get({}, "polluted")).toBeUndefined();
});

describe("corrupt", () => {
  test.each<[string, Buffer]>([
    ["nothing", Buffer.alloc(0)],
    ["no JSON", Buffer.from("not JSON")],
    ["JSON that is cut", bytesOf("request", storedRequest()).subarray(0, 20)],
    ["a stream that is cut", bytesOf("request", storedRequest({ input: "x".repeat(9000) })).subarray(0, 20)],
    ["another version", Buffer.from(JSON.stringify({ ...storedRequest(), v: 2 }))],
    ["another shape", Buffer.from('{"v":1}')],
    ["null", Buffer.from("null")],
    ["a compressed null", deflateSync(Buffer.from("null"))],
  ])("%s", (_what, bytes) => {
    expect(() => decode("request", bytes, "turn t1")).toThrow(
      expect.objectContaining({ code: "corrupt", where: "turn t1" }),
    );
  });

  test("a value that would inflate beyond any size of ours is refused", () => {
    const bomb = deflateSync(Buffer.alloc(257 * 1024 * 1024, " "), { level: 1 });
    expect(() => decode("request", bomb, "turn t1")).toThrow(expect.objectContaining({ code: "corrupt" }));
  });

  test("the message is short and does not hold the value", () => {
    const secret = "sk-secret".repeat(1000);
    try {
      decode("request", Buffer.from(JSON.stringify({ v: 1, input: 7, agent: secret })), "turn t1");
      expect.unreachable();
    } catch (error) {
      expect(String(error).length).toBeLessThan(600);
      expect(String(error)).not.toContain("sk-secret");
    }
  });
});
