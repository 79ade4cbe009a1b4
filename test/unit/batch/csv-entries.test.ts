import { describe, expect, test } from "vitest";
import { csvEntries, type CsvEntry } from "../../../src/batch/csv-entries.ts";

/** How many bytes the parser asked for is counted in `taken`. */
async function* bytesOf(text: string, taken: { bytes: number }): AsyncGenerator<Uint8Array> {
  const all = Buffer.from(text);
  for (let at = 0; at < all.length; at += 65_536) {
    const chunk = all.subarray(at, at + 65_536);
    taken.bytes += chunk.length;
    yield chunk;
  }
}

async function read(text: string, flat = false, taken = { bytes: 0 }): Promise<CsvEntry[]> {
  const entries: CsvEntry[] = [];
  for await (const entry of csvEntries(bytesOf(text, taken), flat)) entries.push(entry);
  return entries.toSorted((a, b) => a.number - b.number);
}

describe("rows of CSV", () => {
  test("are numbered by the line that they end on, blank lines and line breaks in cells counted", async () => {
    expect(await read('input\n"a\nb"\n\nc\n')).toEqual([
      { number: 3, value: { input: "a\nb" } },
      { number: 5, value: { input: "c" } },
    ]);
  });

  test("an empty cell is no value; metadata is JSON, choices are split on commas, other columns are metadata", async () => {
    const text = 'input,target,metadata,choices,level\nhi,,"{""a"":1}","x, y",easy\n';
    expect(await read(text)).toEqual([
      { number: 2, value: { input: "hi", metadata: { a: 1, choices: ["x", "y"], level: "easy" } } },
    ]);
  });

  test("that are to be mapped stay as they are", async () => {
    expect(await read("question,answer,metadata\n1+1,2,{\n", true)).toEqual([
      { number: 2, value: { question: "1+1", answer: "2", metadata: "{" } },
    ]);
  });

  test("D26 what other things are named by is a column like others", async () => {
    const [row] = await read("input,constructor,toString\na,b,c\n");
    expect(row?.problem === undefined ? row?.value["metadata"] : row.problem).toEqual({
      constructor: "b",
      toString: "c",
    });
  });
});

describe("C20 bad rows of CSV", () => {
  test("each is told with its line and column, and the good ones are read", async () => {
    expect(await read('id,input\n1,a\n2,b"c"\n3,d\n4\n5,e\n')).toEqual([
      { number: 2, value: { id: "1", input: "a" } },
      { number: 3, problem: expect.stringMatching(/Quote.*field "input" at line 3/) as string },
      { number: 4, value: { id: "3", input: "d" } },
      { number: 5, problem: expect.stringContaining("line 5") as string },
      { number: 6, value: { id: "5", input: "e" } },
    ]);
  });

  test("a quote that is never closed is told with the line that its row starts on", async () => {
    expect(await read('input\nok\n"never\nends\nat all\n')).toEqual([
      { number: 2, value: { input: "ok" } },
      { number: 3, problem: "the row has a quote that is never closed" },
    ]);
  });

  test("a row without end is told once, and the rest of the file is not read", async () => {
    const taken = { bytes: 0 };
    expect(await read(`input\nok\n"${"z".repeat(12_000_000)}\n`, false, taken)).toEqual([
      { number: 2, value: { input: "ok" } },
      { number: 3, problem: expect.stringContaining("longer than 8 MB") as string },
    ]);
    expect(taken.bytes).toBeLessThan(10_000_000);
  });

  test.each([
    ["twice", "id,id\n1,2\n", 'the header has the column "id" twice'],
    ["of a prototype (D26)", "input,__proto__\n1,2\n", 'a column cannot be named "__proto__"'],
    ["without a name", "id,\n1,2\n", "the header has a column without a name"],
  ])("a column %s", async (_name, text, problem) => {
    expect(await read(text)).toEqual([{ number: 1, problem }]);
  });
});
