import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { z } from "zod";
import { DURABLE_SETTINGS } from "../../../src/redis/settings.ts";

test("docker-compose.yml starts Redis with what doctor asks for", () => {
  const compose = z
    .object({ services: z.object({ redis: z.object({ command: z.array(z.string()), ports: z.array(z.string()) }) }) })
    .parse(parse(readFileSync("docker-compose.yml", "utf8")));
  const { command, ports } = compose.services.redis;
  for (const [name, value] of Object.entries(DURABLE_SETTINGS)) {
    expect(command[command.indexOf(`--${name}`) + 1], name).toBe(value);
  }
  // No password is set, so nobody from outside may reach it.
  expect(ports).toEqual(["127.0.0.1:6379:6379"]);
});
