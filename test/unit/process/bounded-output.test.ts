import { describe, expect, it } from "vitest";
import { OutputHead, OutputTail } from "../../../src/process/bounded-output.ts";

describe("the tail of a stream", () => {
  it("is its last bytes, however they came", () => {
    for (const size of [1, 3, 7, 100]) {
      const tail = new OutputTail(10);
      const all = "abcdefghijklmnopqrstuvwxyz".repeat(40);
      for (let at = 0; at < all.length; at += size) tail.push(Buffer.from(all.slice(at, at + size)));
      expect(tail.text()).toBe("qrstuvwxyz");
    }
  });

  it("is everything as long as that is little", () => {
    const tail = new OutputTail(10);
    tail.push(Buffer.from("ab"));
    tail.push(Buffer.from("cd"));
    expect(tail.text()).toBe("abcd");
  });
});

describe("the head of a stream", () => {
  it("puts characters together that came in two chunks", () => {
    const head = new OutputHead();
    const bytes = Buffer.from("é😀");
    const text = [...bytes].map((byte) => head.take(Buffer.from([byte]))).join("");
    expect(text + head.end()).toBe("é😀");
    expect(head.cut).toBe(false);
  });

  it("C42: is cut at the limit, never inside a character", () => {
    const head = new OutputHead(4);
    expect(head.take(Buffer.from("abc😀def"))).toBe("abc");
    expect(head.cut).toBe(true);
    expect(head.take(Buffer.from("more")) + head.end()).toBe("");
  });
});
