import { expect, test } from "vitest";
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
  expect(rest).toMatchObject({ added: TURNS, complete: true, agents: new Set(["a"]) });
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

test("an interrupted check ends as one", async () => {
  const ended = new AbortController();
  ended.abort();
  await expect(checkTurns(storeOf().turnq, input, cells, ended.signal)).rejects.toMatchObject({ name: "AbortError" });
});
