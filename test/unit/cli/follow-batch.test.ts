import { expect, test } from "vitest";
import { TurnqError } from "../../../src/domain/error.ts";
import type { ResultLine } from "../../../src/batch/result-line.ts";
import { followBatch } from "../../../src/cli/follow-batch.ts";

type Step = "one" | "two" | TurnqError;

function batchOf(rounds: readonly (readonly Step[])[]) {
  const left = [...rounds];
  return {
    asked: 0,
    exists: () => Promise.resolve(true),
    async *results(): AsyncGenerator<ResultLine> {
      this.asked += 1;
      for (const step of left.shift() ?? []) {
        if (step instanceof TurnqError) throw step;
        yield { turn: step } as ResultLine;
      }
    },
  };
}

async function follow(batch: ReturnType<typeof batchOf>, signal = new AbortController().signal) {
  const [turns, told]: [string[], boolean[]] = [[], []];
  for await (const { turn } of followBatch(batch, { place: new Map(), signal, onAway: (away) => told.push(away) }))
    turns.push(turn);
  return { turns, told };
}

test("an outage of Redis is waited for, and told of once", async () => {
  const away = new TurnqError("redis_unreachable", "gone");
  const loading = new TurnqError("redis_refused", "Redis answered: LOADING its data");
  const batch = batchOf([["one", away], [loading], ["two"]]);
  expect(await follow(batch)).toEqual({ turns: ["one", "two"], told: [true, false, true, false] });
});

test.each([new TurnqError("redis_refused", "Redis answered: NOAUTH"), new TurnqError("corrupt", "x")])(
  "what does not pass by itself ends it: %s",
  async (error) => {
    await expect(follow(batchOf([[error]]))).rejects.toBe(error);
  },
);

test("a Redis that comes back empty ends it", async () => {
  const batch = { ...batchOf([[new TurnqError("redis_unreachable", "gone")]]), exists: () => Promise.resolve(false) };
  await expect(follow(batch)).rejects.toMatchObject({ code: "not_found" });
});

test("an outage of a Redis that cannot come back ends it", async () => {
  const error = new TurnqError("redis_unreachable", "gone");
  const { signal } = new AbortController();
  const lines = followBatch(batchOf([[error]]), { place: new Map(), signal, mayReturn: () => false });
  await expect(lines.next()).rejects.toBe(error);
});

test("aborted during an outage it ends", async () => {
  const ended = new AbortController();
  ended.abort();
  const batch = batchOf([["one", new TurnqError("redis_unreachable", "gone")]]);
  expect((await follow(batch, ended.signal)).turns).toEqual(["one"]);
  expect(batch.asked).toBe(1);
});
