import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, expectTypeOf, test } from "vitest";
import { checkConfig, loadConfig } from "../../src/config.ts";
import {
  defineConfig,
  type ClosedAttempt,
  type EventCollector,
  type Json,
  type LaneLimits,
  type Limits,
  type Log,
  type OpenOptions,
  type RedisTarget,
  type TurnqConfig,
  type WorkerOptions,
} from "../../src/index.ts";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "turnq-test-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test("U18: defineConfig gives the configuration back, and its type refuses what loading would refuse", () => {
  const config = defineConfig({
    agents: {
      gpt: { type: "chat", model: "m", baseUrl: "https://api.example.com/v1", limits: { timeoutMs: 1000 } },
      practice: { type: "sim", faults: { "429": 0.1 } },
      mine: { type: "module", module: "./mine.ts", retry: { backoff: { delayMs: 5 } } },
    },
    lanes: { gpt: { concurrency: 20 } },
    retention: { maxAgeMs: 1000 },
  });
  expect(checkConfig(config, "here").agents).toHaveProperty("practice");

  // Each of these lines is refused by the compiler (`npm run types`), and by the check.
  const wrong = [
    // @ts-expect-error -- a key at the top
    defineConfig({ agent: {} }),
    // @ts-expect-error -- a type of agent
    defineConfig({ agents: { a: { type: "chatt", model: "m" } } }),
    // @ts-expect-error -- a key of an agent
    defineConfig({ agents: { a: { type: "command", command: ["cat"], outputs: "text" } } }),
    // @ts-expect-error -- a key of its limits
    defineConfig({ agents: { a: { type: "echo", limits: { timeout: 5 } } } }),
    // @ts-expect-error -- the type of a value
    defineConfig({ lanes: { a: { concurrency: "20" } } }),
  ];
  for (const each of wrong) expect(() => checkConfig(each, "here")).toThrow();
});

test("U18: a configuration imports defineConfig where turnq is not installed beside it", async () => {
  const text = `import { defineConfig, type TurnqConfig } from "turnq";
    const config: TurnqConfig = { agents: { e: { type: "echo" } } };
    export default defineConfig(config);`;
  writeFileSync(join(folder, "turnq.config.ts"), text);
  writeFileSync(join(folder, "old.js"), `module.exports = require("turnq").defineConfig({ agents: {} });`);
  const turnq = () => import("../../src/index.ts");
  const found = await loadConfig({ cwd: folder, env: {}, turnq });
  expect(found.agents).toEqual({ e: { type: "echo" } });
  expect(await loadConfig({ file: "old.js", cwd: folder, env: {}, turnq })).toMatchObject({ agents: {} });
});

test("U18: the types that public signatures mention can be imported", () => {
  expectTypeOf<OpenOptions["log"]>().toEqualTypeOf<Log | undefined>();
  expectTypeOf<OpenOptions["redis"]>().toEqualTypeOf<RedisTarget>();
  expectTypeOf<WorkerOptions["laneLimits"]>().toEqualTypeOf<Readonly<Record<string, LaneLimits>> | undefined>();
  expectTypeOf<Limits>().toHaveProperty("timeoutMs");
  expectTypeOf<ClosedAttempt>().toHaveProperty("crashed");
  expectTypeOf<EventCollector>().toHaveProperty("lastText");
  expectTypeOf<string[]>().toExtend<Json>();
  expectTypeOf<TurnqConfig>().toHaveProperty("agents");
});
