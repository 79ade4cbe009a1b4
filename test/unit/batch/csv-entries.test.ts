import { describe, expect, test } from "vitest";
import { csvEntries, type CsvEntry } from "../../../src/batch/csv-entries.ts";
import type { Mapping } from "../../../src/batch/mapping.ts";

/** How many bytes the parser asked for is counted in `taken`. */
async function* bytesOf(text: string, taken: { bytes: number }): AsyncGenerator<Uint8Array> {
  const all = Buffer.from(text);
  for (let at = 0; at < all.length; at += 65_536) {
    const chunk = all.subarray(at, at + 65_536);
    taken.bytes += chunk.length;
    yield chunk;
  }
}

async function read(text: string, map?: Mapping, taken = { bytes: 0 }): Promise<CsvEntry[]> {
  const entries: CsvEntry[] = [];
  for await (const entry of csvEntries(bytesOf(text, taken), map)) entries.push(entry);
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
    expect(await read("question,answer,metadata\n1+1,2,{\n", new Map([["input", "question"]]))).toEqual([
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

describe("U07: a quoted cell with CRLF inside counts as an editor counts it", () => {
  const numbers = async (text: string): Promise<string[]> =>
    (await read(text)).map(({ number, problem }) => (problem === undefined ? String(number) : `${number} bad`));
  /** Rows of two cells with what is hard to count in them; `|` is a line end. */
  const ROWS = [
    'id,"in|put"', // 1, 2
    'a,"x|y|z"', // 3 to 5
    "b,plain", // 6
    "||c,after blanks", // 7, 8, 9
    '"d|d",bad "quote" and,"more|of it"', // 10 to 12
    "e,too,many", // 13
    'f,"closed"early,"and|on"', // 14, 15
    '"g|g","h||h"', // 16 to 19
    "|i,last", // 20, 21
  ].join("|");
  const EXPECTED = ["5", "6", "9", "10 bad", "13 bad", "14 bad", "19", "21"];

  test.each([
    ["LF", "\n"],
    ["CRLF", "\r\n"],
    ["CR", "\r"],
  ])("in a file whose lines end in %s", async (_name, end) => {
    const text = ROWS.replaceAll("|", end);
    expect(await numbers(text)).toEqual(EXPECTED);
    expect(await numbers(`\ufeff${text}${end}`)).toEqual(EXPECTED);
  });

  test("whatever the rows themselves end in", async () => {
    expect(await numbers('input\r\n"a\nb"\r\nc\r\n')).toEqual(["3", "4"]);
    expect(await numbers('input\n"a\r\nb"\nc\n')).toEqual(["3", "4"]);
    expect(await numbers("id,input\n1,a\r\n2,b\r\n3,c\n")).toEqual(["2", "3", "4"]);
  });

  test("a row that is bad as a whole is told with the line it starts on", async () => {
    const start = 'input\r\n"a\r\nb"\r\n\r\n';
    expect(await read(`${start}"never\r\nends`)).toContainEqual({
      number: 5,
      problem: "the row has a quote that is never closed",
    });
  });

  test("the line ends in the cell stay as they are", async () => {
    expect(await read('input\r\n"a\r\nb"\r\n')).toEqual([{ number: 3, value: { input: "a\r\nb" } }]);
  });
});

describe("C20 bad rows of CSV", () => {
  test("each is told with its line and column, and the good ones are read", async () => {
    expect(await read('id,input\n1,a\n2,b"c"\n3,d\n4\n5,e\n')).toEqual([
      { number: 2, value: { id: "1", input: "a" } },
      { number: 3, problem: expect.stringMatching(/quote inside a cell.*field "input"/) as string },
      { number: 4, value: { id: "3", input: "d" } },
      { number: 5, problem: "the row has 1 cell, and the header 2 cells" },
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
    expect(await read(`input\nok\n"${"z".repeat(12_000_000)}\n`, undefined, taken)).toEqual([
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
