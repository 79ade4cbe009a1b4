import { expect, test } from "vitest";
import { Slots, type Release } from "../../../src/queue/slots.ts";

const taken = async (promise: Promise<unknown>): Promise<boolean> => {
  const marker = Symbol("waiting");
  const turn = new Promise((resolve) => setImmediate(() => resolve(marker)));
  return (await Promise.race([promise, turn])) !== marker;
};

/** A slot that must be free. */
const take = async (slots: Slots): Promise<Release> => {
  const release = await slots.take();
  if (release === undefined) throw new Error("the slots are closed");
  return release;
};

test("as many holders as there are slots; the others are served in order", async () => {
  const slots = new Slots(2);
  const first = await take(slots);
  const second = await take(slots);
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
  const first = await take(slots);
  first();
  first();
  const second = await take(slots);
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
    const release = await take(slots);
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

test("slots that are closed: who waits is let go without one, nobody gets one any more, and one that is held may be given back", async () => {
  const slots = new Slots(1);
  const held = await take(slots);
  const waiting = [slots.take(), slots.take()];
  slots.close();
  expect(await Promise.all(waiting)).toEqual([undefined, undefined]);
  held();
  expect(slots.takeFree()).toBeUndefined();
  expect(await slots.take()).toBeUndefined();
});

test("a free slot is taken at once, but not past those who wait", async () => {
  const slots = new Slots(1);
  const first = slots.takeFree();
  expect(slots.takeFree()).toBeUndefined();
  const second = slots.take();
  first?.();
  expect(slots.takeFree()).toBeUndefined();
  (await second)?.();
  expect(slots.takeFree()).toBeDefined();
});
