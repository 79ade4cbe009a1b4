import { describe, expect, test } from "vitest";
import { checkInput, problemLines, requestsOf } from "../../../src/batch/input.ts";
import { parseMapping } from "../../../src/batch/mapping.ts";
import type { CellOptions } from "../../../src/batch/cells.ts";
import { collect, opener, options } from "./bytes.ts";

const map = (text: string) => ({ map: parseMapping(text) });
const read = (content: string, changes: Partial<CellOptions>) => collect(requestsOf(opener(content), options(changes)));
const problems = async (content: string, changes: Partial<CellOptions>) =>
  problemLines(await checkInput(opener(content), options(changes)));

describe("mapping", () => {
  test("columns become fields, nested ones too, and the rest is metadata", async () => {
    const line =
      '{"task_id":"T/1","prompt":"do it","answer":18,"meta":{"level":3},"deep":{"q":{"text":"x"}},"__proto__":{"a":1}}';
    const [turn] = await read(line, map("input=prompt, id=task_id, target=answer"));
    expect(turn).toMatchObject({ id: "b1:T/1:echo:1", input: "do it", target: 18 });
    expect(JSON.stringify(turn?.metadata)).toBe('{"meta":{"level":3},"deep":{"q":{"text":"x"}},"__proto__":{"a":1}}');
    const [nested] = await read(line, map("input=deep.q.text"));
    expect(nested).toMatchObject({ input: "x", metadata: { task_id: "T/1" } });
    const [dotted] = await read('{"a.b":"whole name","a":{"b":"path"}}', map("input=a.b"));
    expect(dotted?.input).toBe("whole name");
  });

  test("input is the column of that name unless it is mapped; a number there is its text; null says nothing", async () => {
    const [turn] = await read('{"input":"q","answer":null,"x":1}', map("target=answer"));
    expect(turn).toMatchObject({ input: "q", metadata: { x: 1 } });
    expect(turn).not.toHaveProperty("target");
    expect((await read('{"q":12}', map("input=q")))[0]?.input).toBe("12");
    expect(
      (await read('{"q":12345678901234567890,"t":[9007199254740993,1]}', map("input=q,target=t")))[0],
    ).toMatchObject({
      input: "12345678901234567890",
      target: ["9007199254740993", 1],
    });
  });

  test("mapped metadata and the columns that are left are one object", async () => {
    expect((await read('{"q":"x","m":{"a":1},"b":2}', map("input=q,metadata=m")))[0]?.metadata).toEqual({ a: 1, b: 2 });
    expect(await problems('{"q":"x","m":"text","b":2}', map("input=q,metadata=m"))).toEqual([
      "line 1, field metadata (from m): must be an object of values that JSON can carry",
    ]);
  });

  test("a column that a line does not have is a bad line: the nearest one is named", async () => {
    expect(await problems('{"question":"x","id":1}', map("input=qestion,id=id"))).toEqual([
      'line 1, field input (from qestion): the line has no column "qestion" (did you mean "question"?)',
    ]);
    expect(await problems('{"a":1}', map("target=a"))).toEqual([
      "line 1, field input: is missing; map a column to it (input=COLUMN)",
    ]);
  });

  test("a mapping that cannot be meant is refused", () => {
    for (const bad of [
      "",
      "input",
      "input=",
      "=x",
      "input=a=b",
      "input=a,input=b",
      "inptu=a",
      "batch=a",
      "input=a,,",
      "__proto__=a",
    ]) {
      expect(() => parseMapping(bad)).toThrow(expect.objectContaining({ code: "invalid_request" }) as Error);
    }
    expect(() => parseMapping("inptu=a")).toThrow('did you mean "input"?');
  });
});
