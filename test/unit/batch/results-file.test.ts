import { mkdir, mkdtemp, readFile, readdir, rm, symlink, lstat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { ResultLine } from "../../../src/batch/result-line.ts";
import { openResultsFile } from "../../../src/batch/results-file.ts";
import { lineOf } from "./result-lines.ts";

let folder = "";
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "turnq-results-"));
});
afterEach(async () => {
  await rm(folder, { recursive: true, force: true });
});

const samplesIn = async (path: string) => {
  const content = await readFile(path, "utf8");
  expect(content === "" || content.endsWith("\n")).toBe(true);
  return content
    .split("\n")
    .filter((text) => text !== "")
    .map((text) => (JSON.parse(text) as ResultLine).sample);
};

describe("the results file", () => {
  test("is written from what is settled, then appended to", async () => {
    const path = join(folder, "deep", "er", "b1.jsonl");
    const file = await openResultsFile(path, [lineOf("1"), lineOf("2")]);
    expect(await samplesIn(path)).toEqual(["1", "2"]);
    await file.append(lineOf("3"));
    expect(file.replaceable).toBe(true);
    await file.close();
    await file.close();
    expect(await samplesIn(path)).toEqual(["1", "2", "3"]);
    await expect(file.append(lineOf("4"))).rejects.toMatchObject({ code: "closed" });
  });

  test("half a line and old cells of an earlier run are gone, and the old file stands until then", async () => {
    const path = join(folder, "b1.jsonl");
    const old = `${JSON.stringify(lineOf("9"))}\n{"type":"resu`;
    await writeFile(path, old);
    async function* settled() {
      yield lineOf("1");
      expect(await readFile(path, "utf8")).toBe(old);
      yield lineOf("2");
    }
    await (await openResultsFile(path, settled())).close();
    expect(await samplesIn(path)).toEqual(["1", "2"]);
    expect(await readdir(folder)).toEqual(["b1.jsonl"]);
  });

  test("a ledger that fails while it is read leaves the old file whole and nothing beside it", async () => {
    const path = join(folder, "b1.jsonl");
    await writeFile(path, "old\n");
    async function* failing() {
      yield lineOf("1");
      throw new Error("redis gone");
    }
    await expect(openResultsFile(path, failing())).rejects.toMatchObject({
      code: "file",
      message: expect.stringContaining("redis gone") as string,
    });
    expect(await readFile(path, "utf8")).toBe("old\n");
    expect(await readdir(folder)).toEqual(["b1.jsonl"]);
  });

  test("what a killed process left behind is removed, what a living one writes is not", async () => {
    const [dead, alive] = [".b1.jsonl.4194304.00000000.tmp", `.b1.jsonl.${process.pid}.00000000.tmp`];
    await writeFile(join(folder, dead), "x");
    await writeFile(join(folder, alive), "x");
    await writeFile(join(folder, ".other.jsonl.4194304.00000000.tmp"), "x");
    await (await openResultsFile(join(folder, "b1.jsonl"), [])).close();
    expect((await readdir(folder)).toSorted()).toEqual(
      [alive, ".other.jsonl.4194304.00000000.tmp", "b1.jsonl"].toSorted(),
    );
  });

  test("many lines at once: all are there, whole and in order, and memory does not pile up", async () => {
    const path = join(folder, "b1.jsonl");
    const file = await openResultsFile(path, []);
    const count = 3000;
    const output = "ä😀\n".repeat(500);
    await Promise.all(Array.from({ length: count }, (_, index) => file.append(lineOf(String(index), output))));
    await file.close();
    expect(await samplesIn(path)).toEqual(Array.from({ length: count }, (_, index) => String(index)));
  });

  test("a link stays a link, and what it leads to is replaced", async () => {
    await mkdir(join(folder, "real"));
    await writeFile(join(folder, "real", "file.jsonl"), "old\n");
    await symlink(join(folder, "real", "file.jsonl"), join(folder, "link.jsonl"));
    const file = await openResultsFile(join(folder, "link.jsonl"), [lineOf("1")]);
    await file.append(lineOf("2"));
    await file.close();
    expect((await lstat(join(folder, "link.jsonl"))).isSymbolicLink()).toBe(true);
    expect(await samplesIn(join(folder, "real", "file.jsonl"))).toEqual(["1", "2"]);
  });

  test("what is not a regular file is written to and never replaced", async () => {
    const file = await openResultsFile("/dev/null", [lineOf("1")]);
    expect(file.replaceable).toBe(false);
    await file.append(lineOf("2"));
    await file.close();
    expect((await lstat("/dev/null")).isCharacterDevice()).toBe(true);
  });

  test("a place that cannot be written to is named", async () => {
    await writeFile(join(folder, "file"), "");
    await expect(openResultsFile(join(folder, "file", "b1.jsonl"), [])).rejects.toMatchObject({
      code: "file",
      where: join(folder, "file", "b1.jsonl"),
    });
    await expect(openResultsFile(folder, [])).rejects.toMatchObject({ code: "file" });
  });

  test.skipIf(process.platform !== "linux")(
    "a full disk is told at the next line and at the close, never as an unhandled rejection",
    async () => {
      const file = await openResultsFile("/dev/full", []);
      await expect(
        (async () => {
          for (let sample = 0; ; sample += 1) await file.append(lineOf(String(sample)));
        })(),
      ).rejects.toMatchObject({ code: "file", message: expect.stringContaining("ENOSPC") as string });
      await expect(file.close()).rejects.toMatchObject({ code: "file" });
    },
  );
});
