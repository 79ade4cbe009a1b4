import { spawn } from "node:child_process";
import { text } from "node:stream/consumers";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { throwAwayRedis, type ThrowAwayRedis } from "../redis.ts";

const JITI = join(dirname(createRequire(import.meta.url).resolve("jiti/package.json")), "lib/jiti-cli.mjs");

let redis: ThrowAwayRedis;
beforeAll(async () => {
  redis = await throwAwayRedis();
});
afterAll(async () => {
  await redis.stop();
});

test("examples/embed.ts runs, and ends by itself", async () => {
  const { PATH = "", HOME = "" } = process.env;
  const child = spawn(process.execPath, [JITI, "examples/embed.ts"], {
    env: { PATH, HOME, REDIS_URL: redis.url },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const lines = (await text(child.stdout)).trim().split("\n");
  expect(await ended).toBe(0);
  expect(lines[0]).toBe("ticket-9001 is stored");
  expect(lines.slice(1, -1).map((line) => line.replace(/^\d+ /, ""))).toEqual(
    expect.arrayContaining(["agent_start", "usage", "agent_end", "turn_completed"]),
  );
  expect(lines.at(-1)).toBe("We look into it (message 1).");
});
