import { describe, expect, test } from "vitest";
import type { CellOptions } from "../../../src/batch/cells.ts";
import type { Turnq } from "../../../src/turnq.ts";
import { checkTurns, storeTurns } from "../../../src/cli/batch-input.ts";

const TURNS = 250;
const input = {
  open: async function* () {
    for (let n = 1; n <= TURNS; n += 1) yield Buffer.from(`{"input": "${n}"}\n`);
  },
  changed: () => Promise.resolve(false),
  remove: () => Promise.resolve(),
};
const cells: CellOptions = {
  batch: "b",
  agents: ["a"],
  epochs: 1,
  directory: { names: () => ["a"], problem: () => undefined },
};

/** Stores in chunks of 100, as the producer does, and knows which sample has another content. */
function storeOf(conflict?: string) {
  const stored: string[] = [];
  const compared: number[] = [];
  const turnq: Pick<Turnq, "store" | "batch" | "conflicts" | "difference" | "learnAgents"> = {
    async *store(requests) {
      let chunk: { id: string; lane: string; duplicate: boolean }[] = [];
      const flush = () => {
        stored.push(...chunk.map(({ id }) => id));
        return chunk.splice(0);
      };
      for await (const { id = "" } of requests)
        if (chunk.push({ id, lane: "a", duplicate: false }) === 100) yield flush();
      yield flush();
      chunk = [];
    },
    learnAgents: () => Promise.resolve(),
    batch: () => ({ exists: () => Promise.resolve(true) }) as ReturnType<Turnq["batch"]>,
    conflicts: (requests) => {
      compared.push(requests.length);
      return Promise.resolve(requests.flatMap(({ id }) => (id === conflict ? [id ?? ""] : [])));
    },
    difference: () => Promise.resolve(["input", "target"]),
  };
  return { turnq: turnq as Turnq, stored, compared };
}

test("A17: interrupted while it stores, it stops behind what it has read, and says that it is not complete", async () => {
  const { turnq, stored } = storeOf();
  const ended = new AbortController();
  const told = await storeTurns(turnq, input, cells, { signal: ended.signal, onStored: () => ended.abort() });
  expect(told).toMatchObject({ added: 100, duplicates: 0, complete: false });
  expect(stored).toHaveLength(100);
  const again = storeOf();
  const rest = await storeTurns(again.turnq, input, cells, { signal: new AbortController().signal });
  expect(rest).toMatchObject({ added: TURNS, complete: true });
  expect(again.stored.slice(0, 100)).toEqual(stored);
});

test("a conflict is found wherever it stands, before anything is stored", async () => {
  const { turnq, stored, compared } = storeOf("b:249:a:1");
  const check = checkTurns(turnq, input, cells, new AbortController().signal);
  await expect(check).rejects.toMatchObject({
    code: "batch_conflict",
    message: expect.stringContaining(
      "1 turn exists with other content: sample 249 of a (other input, target)",
    ) as string,
    details: { turns: ["b:249:a:1"], count: 1 },
  });
  expect(stored).toEqual([]);
  expect(compared).toEqual([100, 100, 50]);
});

describe("U15: an agent that can do no turn at all is no line's fault", () => {
  const { signal } = new AbortController();
  const fault = (agent: string): string | undefined => (agent === "b" ? undefined : `${agent} has no key`);
  const directory = { names: () => ["a", "b", "c"], problem: () => undefined, fault };

  test("U15: named by --agent, it is told before a line is read, with every other one", async () => {
    const unread = { ...input, open: () => expect.fail("it was read") };
    await expect(
      checkTurns(storeOf().turnq, unread, { ...cells, agents: ["a", "b", "c"], directory }, signal),
    ).rejects.toMatchObject({
      code: "config",
      message: "agent a: a has no key; agent c: c has no key. Correct that, or name other agents.",
    });
  });

  test("U15: named by lines, it is told once, and bad lines come first", async () => {
    const lines = ['{"input": "1", "agent": "a"}', '{"input": "2", "agent": "a"}', '{"input": "3"}'];
    const open = (more: string[]) =>
      async function* () {
        yield Buffer.from([...lines, ...more].join("\n"));
      };
    const check = (...more: string[]) =>
      checkTurns(storeOf().turnq, { ...input, open: open(more) }, { ...cells, agents: ["b"], directory }, signal);
    await expect(check()).rejects.toMatchObject({
      code: "config",
      message: expect.stringMatching(/^agent a: a has no key\./),
    });
    await expect(check("{")).rejects.toMatchObject({
      code: "invalid_input",
      message: expect.not.stringContaining("key"),
    });
  });
});

describe("an input that somebody writes to while it is read is an error of its own", () => {
  const { signal } = new AbortController();

  test("found before anything is stored, it says so", async () => {
    const { turnq, stored } = storeOf();
    const written = { ...input, changed: () => Promise.resolve(true) };
    await expect(checkTurns(turnq, written, cells, signal)).rejects.toMatchObject({
      code: "file",
      message: expect.stringContaining("changed while it was read. Nothing was stored") as string,
    });
    expect(stored).toEqual([]);
  });

  test("found later it says how many are stored, also where a line became a bad one", async () => {
    async function* bad() {
      for (let n = 1; n <= 150; n += 1) yield Buffer.from(n < 150 ? `{"input": "${n}"}\n` : "{\n");
    }
    for (const open of [input.open, bad]) {
      const written = { ...input, open, changed: () => Promise.resolve(true) };
      await expect(storeTurns(storeOf().turnq, written, cells, { signal })).rejects.toMatchObject({
        code: "file",
        message: expect.stringMatching(/changed while it was read.*batch b has now: (250|100),/) as string,
      });
    }
  });
});

test("an interrupted check ends as one", async () => {
  const ended = new AbortController();
  ended.abort();
  await expect(checkTurns(storeOf().turnq, input, cells, ended.signal)).rejects.toMatchObject({ name: "AbortError" });
});
