import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { AgentSpec } from "../../../src/agent/agent-spec.ts";
import { commandAgent } from "../../../src/agents/command/command-agent.ts";
import { CommandConfig } from "../../../src/agents/command/command-config.ts";
import { Place } from "./attempt.ts";

let place: Place;
beforeAll(() => {
  place = new Place();
});
afterEach(() => place.checkEmpty());
afterAll(() => place.close());

function inFresh(code: string): AgentSpec {
  const command = [
    process.execPath,
    "-e",
    `const fs = require("node:fs"); const put = (text) => fs.writeSync(1, text); ${code}`,
  ];
  return commandAgent("prog", CommandConfig.parse({ type: "command", command, freshFolder: true }), place.deps);
}

test("C30: an attempt finds nothing of the one before, also where that one's worker could not clear away", async () => {
  const spec = inFresh(`
    const before = fs.readdirSync(".");
    fs.writeFileSync("report.md", "of a failed attempt");
    put(JSON.stringify({ before, where: process.cwd() }));
    if (JSON.parse(fs.readFileSync(0, "utf8")).attempt === 1) process.exit(1);
  `);
  const first = await place.run(spec, { attempt: 1, request: { id: "again" } });
  expect(first.record.status).toBe("crashed");
  const { where } = JSON.parse(first.record.output) as { where: string };
  expect(existsSync(where)).toBe(false);
  mkdirSync(where);
  writeFileSync(join(where, "report.md"), "of a worker that was killed");
  const second = await place.run(spec, { attempt: 2, request: { id: "again" } });
  expect(JSON.parse(second.record.output)).toMatchObject({ before: [] });
  expect(readdirSync(join(place.folder, ".turnq", "folders"))).toEqual([]);
});

test("C57: turns at once have a HOME and a TMPDIR each, and find the config's folder", async () => {
  const spec = inFresh(`
    const { HOME, TMPDIR, TURNQ_CONFIG_DIR } = process.env;
    fs.writeFileSync(HOME + "/settings.lock", String(process.pid), { flag: "wx" });
    put(JSON.stringify([HOME, TMPDIR, process.cwd(), TURNQ_CONFIG_DIR]));
  `);
  const turns = Array.from({ length: 5 }, (_, i) => place.run(spec, { request: { id: `home-${i}` } }));
  const homes = (await Promise.all(turns)).map(({ record }) => JSON.parse(record.output) as string[]);
  for (const [home, temp, cwd, config] of homes) expect([temp, cwd, config]).toEqual([home, home, place.folder]);
  expect(new Set(homes.map(([home]) => home)).size).toBe(5);
});

test("takes no cwd beside it", () => {
  const both = { type: "command", command: ["true"], freshFolder: true, cwd: "sub" };
  expect(() => CommandConfig.parse(both)).toThrow(/freshFolder/);
});
