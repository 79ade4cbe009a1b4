import { basename, dirname, join } from "node:path";
import { execFileSync } from "node:child_process";
import fc from "fast-check";
import { expect, test } from "vitest";
import { Id } from "../../../src/domain/id.ts";
import { resultsPath } from "../../../src/cli/results-path.ts";
import { CommandLines, goOnArguments, newBatchId, shellWord } from "../../../src/cli/type-next.ts";

test("what is to be typed next has the batch once, whatever was typed", () => {
  const lines = new CommandLines("npx turnq");
  expect(lines.goOn(["run", "a.jsonl", "--batch", "old", "--json"], "b")).toBe(
    "npx turnq run a.jsonl --json --batch b",
  );
  expect(lines.goOn(["run", "--batch=old", "a b.jsonl"], "b")).toBe("npx turnq run 'a b.jsonl' --batch b");
  expect(goOnArguments(["run", "f"], "b")).toEqual(["run", "f", "--batch", "b"]);
});

test("a shell reads every word as it is", () => {
  const words = fc.array(
    fc.string({ unit: "binary" }).map((word) => word.replaceAll("\0", "").toWellFormed()),
    { minLength: 1, maxLength: 5 },
  );
  fc.assert(
    fc.property(words, (given) => {
      const text = `for word in ${given.map(shellWord).join(" ")}; do printf '%s\\0' "$word"; done`;
      const read = execFileSync("sh", ["-c", text], { encoding: "utf8" }).split("\0");
      expect(read.slice(0, -1)).toEqual(given);
    }),
    { numRuns: 20, examples: [[["it's", "$(x)", "a b", "--batch", "ü"]]] },
  );
});

test("a new batch id can be read, is an id, and sorts by time", () => {
  const id = newBatchId(new Date(2026, 10, 30, 22, 59, 59), () => 0);
  expect(id).toBe("20261130-225959-aaaa");
  expect(newBatchId(new Date(2027, 0, 2, 3, 4, 5), () => 0.999)).toBe("20270102-030405-9999");
  expect(Id.safeParse(id).success).toBe(true);
});

test("each batch has a results file of its own inside the folder, whatever its id looks like", () => {
  const id = fc.string({ unit: fc.constantFrom(...Array.from("aB0._-/:@")), minLength: 1, maxLength: 200 });
  fc.assert(
    fc.property(fc.tuple(id, id), ([one, other]) => {
      const path = resultsPath("/work", one);
      expect(dirname(path)).toBe(join("/work", ".turnq", "results"));
      expect(basename(path).length).toBeLessThan(256);
      expect(path === resultsPath("/work", other)).toBe(one === other);
    }),
    { examples: [[["..", "."]], [["a/b", "a:b"]], [["@".repeat(200), `${"@".repeat(199)}:`]]] },
  );
});
