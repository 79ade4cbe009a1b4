import { expect, test } from "vitest";
import { Slots } from "../../../src/queue/slots.ts";

const taken = async (promise: Promise<unknown>): Promise<boolean> => {
  const marker = Symbol("waiting");
  const turn = new Promise((resolve) => setImmediate(() => resolve(marker)));
  return (await Promise.race([promise, turn])) !== marker;
};

test("as many holders as there are slots; the others are served in order", async () => {
  const slots = new Slots(2);
  const first = await slots.take();
  const second = await slots.take();
  const third = slots.take();
  const fourth = slots.take();
  expect(await taken(third)).toBe(false);
  first();
  expect(await taken(third)).toBe(true);
  expect(await taken(fourth)).toBe(false);
  second();
  expect(await taken(fourth)).toBe(true);
});

test("D11: a slot that is released twice comes back once", async () => {
  const slots = new Slots(1);
  const first = await slots.take();
  first();
  first();
  const second = await slots.take();
  const third = slots.take();
  expect(await taken(third)).toBe(false);
  first();
  expect(await taken(third)).toBe(false);
  second();
  expect(await taken(third)).toBe(true);
});

test("after a thousand rounds, in whatever order they end, all slots are free", async () => {
  const slots = new Slots(3);
  let now = 0;
  let most = 0;
  const round = async (i: number): Promise<void> => {
    const release = await slots.take();
    now += 1;
    most = Math.max(most, now);
    for (let wait = 0; wait < i % 3; wait++) await new Promise((resolve) => setImmediate(resolve));
    now -= 1;
    release();
  };
  await Promise.all(Array.from({ length: 1000 }, (_, i) => round(i)));
  expect(most).toBe(3);
  const free = await Promise.all([slots.take(), slots.take(), slots.take()]);
  expect(free).toHaveLength(3);
  expect(await taken(slots.take())).toBe(false);
});
