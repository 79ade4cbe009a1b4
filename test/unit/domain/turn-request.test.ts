import fc from "fast-check";
import { describe, expect, expectTypeOf, test } from "vitest";
import { Id, Name } from "../../../src/domain/id.ts";
import { resolveLimits, resolveRetry } from "../../../src/domain/limits.ts";
import { StoredRequest, TurnRequest } from "../../../src/domain/turn-request.ts";

const request = { agent: "echo", input: "hello" };

describe("ids", () => {
  test("A20 one rule: 1 to 200 characters of letters, digits and . _ - / : @", () => {
    for (const good of [
      "123",
      "0",
      "-5",
      "NaN",
      "a:b",
      "a:b:c",
      "1.5",
      "HumanEval/0",
      "user@example",
      "x".repeat(200),
    ]) {
      expect(Id.safeParse(good).success).toBe(true);
    }
    for (const bad of [
      "",
      " ",
      "a b",
      "ä",
      "a\n",
      "a\n".repeat(2),
      "x".repeat(201),
      "x".repeat(20_000),
      123,
      null,
      "😀",
      "a~2",
      "{a}",
    ]) {
      expect(Id.safeParse(bad).success).toBe(false);
    }
  });

  test("an agent's or lane's name has no colon", () => {
    expect(Name.safeParse("team/agent@2").success).toBe(true);
    for (const bad of ["a:b", "", "x".repeat(101), "a\n"]) expect(Name.safeParse(bad).success).toBe(false);
  });
});

describe("TurnRequest", () => {
  test("the smallest one", () => {
    expect(TurnRequest.parse(request)).toEqual(request);
    expectTypeOf<TurnRequest["input"]>().toExtend<string | readonly unknown[]>();
    // @ts-expect-error a request names its agent
    expect(TurnRequest.safeParse({ input: "x" } satisfies TurnRequest).success).toBe(false);
  });

  test("U08: a stored one with an empty input is still read", () => {
    const rules = { v: 1, id: "a", lane: "a", limits: resolveLimits(), retry: resolveRetry() };
    for (const input of ["", " ", [{ type: "text", text: "" }]]) {
      expect(TurnRequest.safeParse({ agent: "echo", input }).error?.issues[0]?.message).toBe("is empty");
      expect(StoredRequest.parse({ agent: "echo", input, ...rules }).input).toEqual(input);
    }
  });

  test("an unknown key is refused at every level", () => {
    for (const bad of [
      { inptu: 1 },
      { delayms: 5 },
      { limits: { idle: 1 } },
      { retry: { max: 1 } },
      { expect: [{ type: "equals", x: 1 }] },
    ]) {
      expect(TurnRequest.safeParse({ ...request, ...bad }).success).toBe(false);
    }
    expect(TurnRequest.safeParse({ ...request, batch: { id: "b", sample: "s", epoch: 1, more: 1 } }).success).toBe(
      false,
    );
  });

  test("D26 prototype keys: refused as a field, kept as data", () => {
    const field: unknown = JSON.parse('{"agent":"echo","input":"x","__proto__":{"polluted":1}}');
    expect(TurnRequest.safeParse(field).success).toBe(false);
    const text =
      '{"agent":"echo","input":"x","metadata":{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}},"options":{"__proto__":2}}';
    expect(JSON.parse(JSON.stringify(TurnRequest.parse(JSON.parse(text))))).toEqual(JSON.parse(text));
    expect("polluted" in {}).toBe(false);
  });

  test("a round trip through JSON changes nothing, whatever the data", () => {
    const object = fc.dictionary(fc.oneof(fc.string(), fc.constant("__proto__")), fc.jsonValue({ maxDepth: 4 }));
    const data = fc.record({ metadata: object, options: object, labels: fc.constant({ team: "x" }) });
    fc.assert(
      fc.property(
        data,
        fc.string({ unit: "grapheme" }).map((text) => `a${text}`),
        (fields, input) => {
          const parsed = TurnRequest.parse(JSON.parse(JSON.stringify({ agent: "echo", input, ...fields })));
          expect(TurnRequest.parse(JSON.parse(JSON.stringify(parsed)))).toEqual(parsed);
          expect(JSON.stringify(parsed.metadata)).toBe(JSON.stringify(fields.metadata));
        },
      ),
    );
  });

  test("a stored request has its id, lane, limits and retry rules", () => {
    expect(StoredRequest.safeParse({ ...request, v: 1 }).success).toBe(false);
    expectTypeOf<StoredRequest>().toHaveProperty("lane").toEqualTypeOf<string>();
  });
});
