import { describe, expect, it } from "vitest";
import type { z } from "zod";
import { readSample } from "../../../src/batch/cells.ts";
import { ConfigFile, checkConfig } from "../../../src/config.ts";
import { TurnRequest } from "../../../src/domain/turn-request.ts";
import { fieldProblem, problemsOf } from "../../../src/parse/problem.ts";

/** An object of a schema that refuses unknown keys, and a value that leads to it: `put` gives the value with `there` in its place. */
interface Strict {
  readonly path: readonly (string | number)[];
  readonly keys: readonly string[];
  readonly put: (there: object) => unknown;
}

type Schema = z.core.$ZodTypes;

/** Every strict object in a schema; those below a union without a tag are not told apart by it, and left out. */
function* strictIn(schema: z.core.$ZodType, at: Omit<Strict, "keys">): Generator<Strict> {
  const { def } = (schema as Schema)._zod;
  if ("innerType" in def) yield* strictIn(def.innerType, at);
  else if (def.type === "object") {
    const strict = def.catchall?._zod.def.type === "never";
    if (strict) yield { ...at, keys: Object.keys(def.shape) };
    for (const [key, inner] of Object.entries(def.shape)) {
      const known = tagOf(def.shape);
      yield* strictIn(inner, { path: [...at.path, key], put: (there) => at.put({ ...known, [key]: there }) });
    }
  } else if (def.type === "record")
    yield* strictIn(def.valueType, { path: [...at.path, "a"], put: (there) => at.put({ a: there }) });
  else if (def.type === "array")
    yield* strictIn(def.element, { path: [...at.path, 0], put: (there) => at.put([there]) });
  else if (def.type === "union" && "discriminator" in def) {
    for (const option of def.options) {
      const { shape } = (option as z.ZodObject)._zod.def;
      yield* strictIn(option, { path: at.path, put: (there) => at.put({ ...tagOf(shape), ...there }) });
    }
  }
}

/** The field that tells an option of a union from the others. */
function tagOf(shape: Readonly<Record<string, z.core.$ZodType>>): object {
  const { type } = shape;
  const def = (type as Schema | undefined)?._zod.def;
  return def?.type === "literal" ? { type: def.values[0] } : {};
}

const unknownKeys = (schema: z.ZodType): [string, string, string[]][] =>
  [...strictIn(schema, { path: [], put: (there) => there })].flatMap(({ path, keys, put }) =>
    keys.map((key): [string, string, string[]] => {
      const value = put({ [`${key}Q`]: 1 });
      const { error } = schema.safeParse(value);
      const problems = error === undefined ? [] : problemsOf(error, value, schema).map(fieldProblem);
      const name = path.map((part) => (typeof part === "number" ? `[${part}]` : `.${part}`)).join("");
      return [`${name.slice(1)}${name === "" ? "" : ": "}`, key, problems];
    }),
  );

describe("an unknown key", () => {
  it.each<[string, z.ZodType, number]>([
    ["a request", TurnRequest, 35],
    ["a configuration", ConfigFile, 200],
  ])("U15: in %s names the nearest known one, however deep it stands", (_, schema, atLeast) => {
    const found = unknownKeys(schema);
    expect(found.length).toBeGreaterThan(atLeast);
    for (const [at, key, problems] of found)
      expect(problems).toContain(`${at}unknown key "${key}Q" (did you mean "${key}"?)`);
  });

  it.each<[object, string, string]>([
    [{ limits: { maxStep: 5 } }, "limits", 'unknown key "maxStep" (did you mean "maxSteps"?)'],
    [{ retry: { maxAttempt: 5 } }, "retry", 'unknown key "maxAttempt" (did you mean "maxAttempts"?)'],
    [{ retry: { backoff: { delay: 5 } } }, "retry.backoff", 'unknown key "delay" (did you mean "delayMs"?)'],
    [{ expect: [{ typ: "equals" }] }, "expect[0]", 'unknown key "typ" (did you mean "type"?)'],
    [{ expect: [{ type: "equal" }] }, "expect[0].type", '"includes", "regex" or "number" (did you mean "equals"?)'],
    [{ batsh: {} }, "", 'unknown key "batsh"'],
  ])("U15: in a line of a file: %o", (line, field, message) => {
    const directory = { names: () => [], problem: () => undefined };
    const cells = { batch: "b", agents: ["a"], epochs: 1, directory };
    const { problems = [] } = readSample({ input: "x", ...line }, 1, cells);
    const told = problems.find((problem) => (problem.field ?? "") === field);
    expect(told?.message.endsWith(message)).toBe(true);
  });

  it("U15: in a script names what it may hold", () => {
    const agents = { a: { type: "scripted", script: [{ tool: "t", agrs: 1 }] } };
    expect(() => checkConfig({ agents }, "c.json")).toThrow(
      /^c\.json: agents\.a\.script\[0\]: unknown key "agrs" \(did you mean "args"\?\)$/,
    );
  });

  it("of a value with ever so many the first are named, and that there are more", () => {
    const limits = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`key${i}`, 1]));
    const value = { agent: "a", input: "x", limits };
    const problems = problemsOf(TurnRequest.safeParse(value).error ?? expect.unreachable(), value, TurnRequest);
    expect(problems).toHaveLength(21);
    expect(problems[0]).toEqual({ field: "limits", message: 'unknown key "key0"' });
    expect(problems.at(-1)).toEqual({ message: "and more is wrong with it" });
  });
});
