import { execFileSync } from "node:child_process";
import { createReadStream } from "node:fs";
import { appendFile, mkdtemp, readdir, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { openInput, spool } from "../../../src/batch/spool.ts";
import { collect, opener } from "./bytes.ts";

let folder = "";
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "turnq-spool-"));
});
afterEach(async () => {
  await rm(folder, { recursive: true, force: true });
});

const textOf = async (bytes: AsyncIterable<Uint8Array>) => Buffer.concat(await collect(bytes)).toString();
const nothing = opener("");

describe("spool", () => {
  test("a stream can be read again and again, also by two at once, and no file has a name", async () => {
    const content = "0123456789".repeat(20_000);
    const kept = await spool(opener(content, 7777)(), join(folder, "new"));
    expect(await readdir(join(folder, "new"))).toEqual([]);
    expect(await textOf(kept.open())).toBe(content);
    expect(await Promise.all([textOf(kept.open()), textOf(kept.open())])).toEqual([content, content]);
    await kept.remove();
    await kept.remove();
    await expect(textOf(kept.open())).rejects.toThrow();
  });

  test("a stream that fails is told, and nothing is left", async () => {
    async function* failing() {
      yield Buffer.from("x");
      throw new Error("pipe broke");
    }
    await expect(spool(failing(), folder)).rejects.toMatchObject({
      code: "file",
      message: expect.stringContaining("pipe broke") as string,
    });
    expect(await readdir(folder)).toEqual([]);
  });
});

describe("openInput", () => {
  test("a file is read as it is, from the start each time", async () => {
    const path = join(folder, "in.jsonl");
    await writeFile(path, "content");
    const input = await openInput(path, { stdin: nothing(), spoolDir: join(folder, "spool") });
    expect([await textOf(input.open()), await textOf(input.open())]).toEqual(["content", "content"]);
    await input.remove();
    expect(await readdir(folder)).toEqual(["in.jsonl"]);
  });

  test("a file that is written to meanwhile is known to have changed; one that is replaced is read on as it was", async () => {
    const path = join(folder, "in.jsonl");
    await writeFile(path, "content");
    const input = await openInput(path, { stdin: nothing(), spoolDir: folder });
    expect(await input.changed()).toBe(false);
    await writeFile(`${path}.new`, "replaced");
    await rename(`${path}.new`, path);
    expect([await input.changed(), await textOf(input.open())]).toEqual([false, "content"]);
    const other = await openInput(path, { stdin: nothing(), spoolDir: folder });
    await appendFile(path, " and more");
    expect(await other.changed()).toBe(true);
    await input.remove();
    await other.remove();
  });

  test("C20 - is the standard input, and an empty one is empty", async () => {
    const input = await openInput("-", { stdin: opener("piped")(), spoolDir: folder });
    expect([await textOf(input.open()), await textOf(input.open())]).toEqual(["piped", "piped"]);
    await input.remove();
    const empty = await openInput("-", { stdin: nothing(), spoolDir: folder });
    expect(await textOf(empty.open())).toBe("");
    await empty.remove();
  });

  test("what can be read only once is kept first", async () => {
    const fifo = join(folder, "fifo");
    execFileSync("sh", ["-c", `mkfifo "$0"`, fifo]);
    const [input] = await Promise.all([
      openInput(fifo, { stdin: nothing(), spoolDir: folder }),
      writeFile(fifo, "once"),
    ]);
    expect([await textOf(input.open()), await textOf(input.open())]).toEqual(["once", "once"]);
    await input.remove();
  });

  test("a missing file and a folder are named", async () => {
    const places = { stdin: nothing(), spoolDir: folder };
    await expect(openInput(join(folder, "no.jsonl"), places)).rejects.toMatchObject({
      code: "file",
      where: join(folder, "no.jsonl"),
    });
    await expect(openInput(folder, places)).rejects.toMatchObject({
      code: "file",
      message: expect.stringContaining("is a folder") as string,
    });
  });

  test("a stream of Node is a source as it is", async () => {
    const path = join(folder, "in.jsonl");
    await writeFile(path, "streamed");
    const kept = await spool(createReadStream(path), folder);
    expect(await textOf(kept.open())).toBe("streamed");
    await kept.remove();
  });
});
