import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { ResultLine } from "../../../src/batch/result-line.ts";
import { fileSink, ResultCollector, upToDate, type ResultSink } from "../../../src/cli/result-collector.ts";
import { lineOf } from "../batch/result-lines.ts";

let folder = "";
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "turnq-collector-"));
});
afterEach(async () => {
  await rm(folder, { recursive: true, force: true });
});

const again = (sample: string, generation: number): ResultLine => ({ ...lineOf(sample, `${generation}`), generation });

async function* given(...lines: ResultLine[]): AsyncGenerator<ResultLine> {
  yield* lines;
}

const outputsIn = async (path: string): Promise<unknown[]> =>
  (await readFile(path, "utf8"))
    .trim()
    .split("\n")
    .map((text) => Reflect.get(Object(JSON.parse(text)), "output"));

test("the same Result again changes nothing; a later generation outdates what was taken", () => {
  const collector = new ResultCollector("b1");
  expect([again("1", 1), again("1", 1), again("2", 2)].map((line) => collector.accept(line))).toEqual([
    true,
    false,
    true,
  ]);
  expect(collector.outdated).toBe(false);
  expect(collector.accept(again("1", 2))).toBe(false);
  expect(collector.outdated).toBe(true);
  expect([again("1", 1), again("1", 2)].map((line) => collector.has(line))).toEqual([true, false]);
});

test("a file in which a cell settled anew is written anew, and holds it once", async () => {
  const path = join(folder, "b1.jsonl");
  const collector = new ResultCollector("b1");
  const sink = await fileSink(path, collector.fresh(given(again("1", 1))));
  for await (const line of collector.fresh(given(again("2", 1), again("1", 2)))) await sink.put(line);
  // While it is read anew, another one settles once more.
  const reads = [
    [again("2", 1), again("1", 2), again("2", 2)],
    [again("1", 2), again("2", 2), again("3", 1)],
  ];
  const last = await upToDate(collector, sink, () => given(...(reads.shift() ?? [])));
  await sink.close();
  expect(await outputsIn(path)).toEqual(["2", "2", "1"]);
  expect(last.summary({ turns: 3 })).toMatchObject({ settled: 3 });
  expect(last.outdated).toBe(false);
});

test("where what is written is out, only the Results that are new follow", async () => {
  const put: string[] = [];
  const sink: ResultSink = {
    put: async ({ sample, generation }) => void put.push(`${sample}.${generation}`),
    close: () => Promise.resolve(),
  };
  const collector = new ResultCollector("b1");
  for await (const line of collector.fresh(given(again("1", 1), again("2", 1), again("1", 2)))) await sink.put(line);
  await upToDate(collector, sink, () => given(again("2", 1), again("1", 2)));
  expect(put).toEqual(["1.1", "2.1", "1.2"]);
  expect(await upToDate(collector, sink, () => given(again("2", 1), again("1", 2)))).not.toBe(collector);
});
