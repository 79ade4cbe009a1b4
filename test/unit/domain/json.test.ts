import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Json, JsonObject, toJson } from "../../../src/domain/json.ts";
import { anyText } from "./arbitraries.ts";

function cyclic(): object {
  const list: unknown[] = [1];
  const value = { list };
  list.push(value);
  return value;
}

function shared(levels: number): unknown {
  let value: unknown = "leaf";
  for (let level = 0; level < levels; level += 1) value = [value, value];
  return value;
}

function nested(levels: number): unknown {
  let value: unknown = 1;
  for (let level = 0; level < levels; level += 1) value = { value };
  return value;
}

const throwing = (): never => {
  throw new Error("no");
};

class Odd {
  static readonly name = Symbol("name") as unknown as string;
}

describe("toJson", () => {
  test("A26 A29 what JSON cannot carry has a form of its own", () => {
    expect(toJson(9007199254740993n)).toBe("9007199254740993");
    expect(toJson([Number.NaN, Number.POSITIVE_INFINITY, -0, undefined])).toEqual(["NaN", "Infinity", 0, null]);
    expect(toJson({ a: undefined, b: new Date(0), c: new Date(Number.NaN) })).toEqual({
      b: "1970-01-01T00:00:00.000Z",
      c: "Invalid Date",
    });
    expect(toJson(new Map([["k", new Set([1])]]))).toEqual([["k", [1]]]);
    expect(toJson([throwing, Symbol("s"), Odd])).toEqual(["[function throwing]", "[Symbol(s)]", "[function ]"]);
    expect(toJson(Buffer.from("hi"))).toBe("aGk=");
    expect(toJson(new TypeError("bad"))).toEqual({ name: "TypeError", message: "bad" });
    expect(toJson({ toJSON: () => ({ safe: 1n }) })).toEqual({ safe: "1" });
    expect(toJson(cyclic())).toEqual({ list: [1, "[cycle]"] });
    // oxlint-disable-next-line no-sparse-arrays
    expect(toJson([1, , 2])).toEqual([1, null, 2]);
  });

  test("A26 a value that throws when it is read is unreadable, and its neighbours are kept", () => {
    const proxy = new Proxy({}, { ownKeys: throwing, getPrototypeOf: throwing });
    const badName = Object.assign(new Error("x"), { name: { toString: throwing } });
    expect(
      toJson([
        1,
        { toJSON: throwing },
        {
          get field() {
            return throwing();
          },
        },
        proxy,
        2,
      ]),
    ).toEqual([1, "[unreadable]", "[unreadable]", "[unreadable]", 2]);
    expect(Json.safeParse(toJson(badName)).success).toBe(true);
  });

  test("values that have no end as text are cut", () => {
    expect(JSON.stringify(toJson(nested(200)))).toContain("[too deep]");
    expect(Json.safeParse(toJson(nested(200))).success).toBe(true);
    expect(JSON.stringify(toJson(shared(60)))).toContain("[too large]");
    expect(JSON.stringify(toJson({ huge: Object.assign([], { length: 4_294_967_295 }), next: 1 })).length).toBeLessThan(
      10_000_000,
    );
  });

  test("C42 lone surrogates and NUL are replaced, in keys too", () => {
    expect(toJson({ "k\ud83d": "a\ude00b\u0000" })).toEqual({ "k\ufffd": "a\ufffdb\ufffd" });
  });

  test("D26 prototype keys stay plain fields and nothing global changes", () => {
    const value: unknown = JSON.parse(
      '{"__proto__": {"polluted": true}, "constructor": {"prototype": {"polluted": true}}}',
    );
    expect(JSON.stringify(toJson(value))).toBe(JSON.stringify(value));
    expect("polluted" in {}).toBe(false);
  });

  test("never throws, is always JSON, survives a round trip, and twice is once", () => {
    const anything = fc.anything({
      withBigInt: true,
      withDate: true,
      withMap: true,
      withSet: true,
      withTypedArray: true,
      withSparseArray: true,
      withNullPrototype: true,
      withObjectString: true,
      withBoxedValues: true,
      values: [anyText, fc.double(), fc.bigInt(), fc.constant(undefined), fc.constant(Symbol("s"))],
      key: fc.oneof(anyText, fc.constantFrom("__proto__", "constructor", "toJSON")),
    });
    fc.assert(
      fc.property(anything, (value) => {
        const json = toJson(value);
        expect(Json.safeParse(json).success).toBe(true);
        expect(JSON.parse(JSON.stringify(json))).toEqual(json);
        expect(toJson(json)).toEqual(json);
      }),
    );
  });
});

describe("Json", () => {
  test("A29 refuses what would change silently", () => {
    for (const bad of [
      Number.NaN,
      Number.POSITIVE_INFINITY,
      undefined,
      1n,
      new Date(),
      new Map(),
      () => 1,
      { a: undefined },
      [Number.NaN],
    ]) {
      expect(Json.safeParse(bad).success).toBe(false);
    }
    expect(Json.safeParse(cyclic()).success).toBe(false);
    expect(JsonObject.safeParse([]).success).toBe(false);
    expect(JsonObject.safeParse(null).success).toBe(false);
  });

  test("D26 a prototype key passes through as the plain field that it is", () => {
    const value: unknown = JSON.parse('{"__proto__": {"a": 1}}');
    expect(JSON.stringify(JsonObject.parse(value))).toBe('{"__proto__":{"a":1}}');
  });
});
