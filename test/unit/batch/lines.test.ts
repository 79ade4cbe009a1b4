import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { LINE_MAX_BYTES, readLines } from "../../../src/batch/lines.ts";
import { collect, opener } from "./bytes.ts";

const linesOf = (content: string | Uint8Array, size?: number, maxBytes?: number) =>
  collect(readLines(opener(content, size)(), { maxBytes }));

describe("readLines", () => {
  test("C20 a byte order mark, CRLF, blank lines and a missing last newline, in pieces of any size", async () => {
    const content = '\ufeff{"a":1}\r\n\r\n   \n{"b":"ä😀"}\n\n{"c":3}';
    for (const size of [1, 2, 3, 5, 1000]) {
      expect(await linesOf(content, size)).toEqual([
        { number: 1, text: '{"a":1}' },
        { number: 4, text: '{"b":"ä😀"}' },
        { number: 6, text: '{"c":3}' },
      ]);
    }
  });

  test("C20 an empty file, one of blanks, and one shorter than a mark", async () => {
    expect(await linesOf("")).toEqual([]);
    expect(await linesOf("\ufeff\n \r\n")).toEqual([]);
    expect(await linesOf("7")).toEqual([{ number: 1, text: "7" }]);
    expect(await linesOf("\n\n\nx", 1)).toEqual([{ number: 4, text: "x" }]);
  });

  test("C20 UTF-16 and archives are one problem that says what to do", async () => {
    const text = '{"input":"x"}\n{"input":"y"}\n';
    const marked = Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from(text, "utf16le")]);
    const cases: readonly (readonly [Uint8Array, RegExp])[] = [
      [marked, /UTF-16; save it as UTF-8/],
      [Buffer.from(marked).swap16(), /UTF-16; save it as UTF-8/],
      [Buffer.from(text, "utf16le"), /UTF-16/],
      [Buffer.from([0x1f, 0x8b, 8, 0, 0]), /compressed; unpack it/],
      [Buffer.from([0x50, 0x4b, 3, 4, 0]), /zip archive/],
      [Buffer.from([0xff, 0xfe]), /UTF-16/],
    ];
    for (const [bytes, words] of cases) {
      for (const size of [1, 100]) {
        expect(await linesOf(bytes, size)).toEqual([{ number: 1, problem: expect.stringMatching(words) as string }]);
      }
    }
  });

  test("C20 a line that is not UTF-8 is bad and its neighbours are kept", async () => {
    const bytes = Buffer.concat([
      Buffer.from("one\ntw"),
      Buffer.from([0xff]),
      Buffer.from("o\n"),
      Buffer.from([0xc3]),
      Buffer.from("\nfour"),
    ]);
    for (const size of [1, 100]) {
      expect(await linesOf(bytes, size)).toEqual([
        { number: 1, text: "one" },
        { number: 2, problem: "is not valid UTF-8" },
        { number: 3, problem: "is not valid UTF-8" },
        { number: 4, text: "four" },
      ]);
    }
  });

  test("C17 a line over the limit is bad and its neighbours are kept", async () => {
    for (const size of [1, 7, 1000]) {
      expect(await linesOf(`one\n${"x".repeat(11)}\n${"y".repeat(10)}\n${"z".repeat(500)}`, size, 10)).toEqual([
        { number: 1, text: "one" },
        { number: 2, problem: "is longer than 10 bytes" },
        { number: 3, text: "y".repeat(10) },
        { number: 4, problem: "is longer than 10 bytes" },
      ]);
    }
  });

  test("C17 a gigabyte without a newline holds no more than one line in memory", async () => {
    const piece = Buffer.alloc(1024 * 1024, 0x61);
    let most = 0;
    async function* gigabyte() {
      for (let count = 0; count < 1024; count += 1) {
        if (count % 64 === 0) most = Math.max(most, process.memoryUsage().arrayBuffers);
        yield piece;
      }
      yield Buffer.from("\nlast\n");
    }
    const before = process.memoryUsage().arrayBuffers;
    expect(await collect(readLines(gigabyte()))).toEqual([
      { number: 1, problem: `is longer than ${LINE_MAX_BYTES} bytes` },
      { number: 2, text: "last" },
    ]);
    expect(most - before).toBeLessThan(8 * LINE_MAX_BYTES);
  });

  test("an error of the source is thrown as it is, and a reader that stops closes the source", async () => {
    async function* failing() {
      yield Buffer.from("one\ntwo\n");
      throw new Error("disk gone");
    }
    await expect(collect(readLines(failing()))).rejects.toThrow("disk gone");
    let closed = false;
    async function* endless() {
      try {
        for (;;) yield Buffer.from("line\n");
      } finally {
        closed = true;
      }
    }
    for await (const line of readLines(endless())) if (line.number === 5) break;
    expect(closed).toBe(true);
  });

  test("any text in any pieces gives the lines that splitting it gives", async () => {
    const text = fc.array(
      fc.oneof(fc.string({ unit: "grapheme", maxLength: 4 }), fc.constantFrom("\n", "\r\n", "\n\n", " ")),
      { maxLength: 30 },
    );
    await fc.assert(
      fc.asyncProperty(text, fc.integer({ min: 1, max: 9 }), async (pieces, size) => {
        const content = `#${pieces.join("")}`;
        const expected = content
          .split("\n")
          .map((line, index) => ({ number: index + 1, text: line.trim() }))
          .filter((line) => line.text !== "");
        expect(await linesOf(content, size)).toEqual(expected);
      }),
    );
  });
});
