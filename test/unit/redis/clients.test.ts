import { afterEach, expect, test } from "vitest";
import { closeDoor, countClients, KEEPER_NAME, MAX_CLIENTS, maxClients } from "../../../src/redis/clients.ts";
import { connect, whenReady } from "../../../src/redis/connection.ts";
import { probe } from "../../../src/redis/probe.ts";
import { throwAwayRedis } from "../../redis.ts";

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

async function keeperOf(url: string): Promise<ReturnType<typeof connect>> {
  const keeper = connect(url, "producer", { name: KEEPER_NAME });
  cleanups.push(() => keeper.disconnect());
  await whenReady(keeper, 5_000);
  return keeper;
}

test("a keeper is no user; everybody else is, whatever the name", async () => {
  const server = await throwAwayRedis();
  cleanups.push(() => server.stop());
  const keeper = await keeperOf(server.url);
  expect(await countClients(keeper)).toEqual({ users: 0, keepers: 1 });
  const other = connect(server.url, "worker", { name: `${KEEPER_NAME}-2` });
  cleanups.push(() => other.disconnect());
  await other.ping();
  expect(await countClients(keeper)).toEqual({ users: 1, keepers: 1 });
});

test("behind a closed door nobody comes in", async () => {
  const server = await throwAwayRedis();
  cleanups.push(() => server.stop());
  const keeper = await keeperOf(server.url);
  expect(await closeDoor(keeper)).toBe(true);
  expect(await probe(server.url)).not.toBe("up");
});

test("the door opens again for a user who came in before it closed", async () => {
  const server = await throwAwayRedis();
  cleanups.push(() => server.stop());
  const keeper = await keeperOf(server.url);
  const user = connect(server.url, "worker");
  cleanups.push(() => user.disconnect());
  await user.ping();
  expect(await closeDoor(keeper)).toBe(false);
  expect(await maxClients(keeper)).toBe(MAX_CLIENTS);
  expect(await probe(server.url)).toBe("up");
});
