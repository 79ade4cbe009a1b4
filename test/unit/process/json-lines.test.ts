import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { LineSplitter } from "../../../src/process/json-lines.ts";

function split(chunks: readonly (string | Buffer)[], maxBytes?: number): { lines: string[]; skipped: number } {
  const lines: string[] = [];
  const splitter = new LineSplitter({ onLine: (line) => lines.push(line), maxBytes });
  for (const chunk of chunks) splitter.push(Buffer.from(chunk));
  splitter.end();
  return { lines, skipped: splitter.skipped };
}

describe("lines of a stream", () => {
  it("are the same however the stream is cut into chunks", () => {
    const line = fc.string({ unit: "binary" }).filter((text) => !/[\r\n\ufeff]/.test(text) && text.isWellFormed());
    fc.assert(
      fc.property(
        fc.array(line, { minLength: 1 }),
        fc.array(fc.integer({ min: 1, max: 7 }), { minLength: 1 }),
        (lines, sizes) => {
          const bytes = Buffer.from(`${lines.join("\n")}\n`);
          const chunks: Buffer[] = [];
          for (let at = 0, n = 0; at < bytes.length; n += 1) {
            const size = sizes[n % sizes.length] ?? 1;
            chunks.push(bytes.subarray(at, at + size));
            at += size;
          }
          expect(split(chunks).lines).toEqual(lines);
        },
      ),
    );
  });

  it("lose a CR, a BOM at the start, and nothing else", () => {
    expect(split(["\ufeffa\r\nb\r", "\n\r\nc"]).lines).toEqual(["a", "b", "", "c"]);
    expect(split(["a\n\ufeffb"]).lines).toEqual(["a", "\ufeffb"]);
    expect(split([]).lines).toEqual([]);
    expect(split(["a\n"]).lines).toEqual(["a"]);
  });

  it("hold U+FFFD where bytes are not UTF-8", () => {
    expect(split([Buffer.from([0x61, 0xff, 0x62, 0x0a])]).lines).toEqual(["a\ufffdb"]);
  });

  it("C17: one over the limit is skipped and counted, also in pieces and at the end; its neighbours are kept", () => {
    expect(split(["ok\n", "x".repeat(5), "x".repeat(6), "\nok\n1234567890\n"], 10)).toEqual({
      lines: ["ok", "ok", "1234567890"],
      skipped: 1,
    });
    expect(split(["ok\n", "x".repeat(11)], 10)).toEqual({ lines: ["ok"], skipped: 1 });
  });

  it("C17: 1 GB without a newline is never held", () => {
    const lines: string[] = [];
    const splitter = new LineSplitter({ onLine: (line) => lines.push(line), maxBytes: 1e6 });
    const chunk = Buffer.alloc(65_536, "x");
    const before = process.memoryUsage().rss;
    for (let n = 0; n < 16_384; n += 1) splitter.push(chunk);
    expect(process.memoryUsage().rss - before).toBeLessThan(100e6);
    splitter.push(Buffer.from("\nafter\n"));
    expect(lines).toEqual(["after"]);
    expect(splitter.skipped).toBe(1);
  });
});
