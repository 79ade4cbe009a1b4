import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, it } from "vitest";
import { agentContract, type ContractScenario } from "../../src/agent/agent-contract.ts";
import { ModuleConfig } from "../../src/agents/module/module-config.ts";
import { moduleAgent } from "../../src/agents/module/module-agent.ts";
import type { Action, Script } from "../../src/agents/scripted/script.ts";
import { attemptInit, isProcessAlive, startOptions } from "../agents.ts";
import { Place } from "../integration/agents/attempt.ts";

const FIXTURES = fileURLToPath(new URL("../fixtures/module", import.meta.url));

const ROUND: readonly Action[] = [
  { call: true },
  { usage: { inputTokens: 5, outputTokens: 2 } },
  { tool: "look", result: 1 },
  { stepEnd: true },
];

function scriptFor(scenario: ContractScenario, pidFile: string): Script {
  switch (scenario) {
    case "clean turn":
      return [
        { call: true },
        { say: "Hi. " },
        { tool: "look" },
        { usage: { inputTokens: 3 } },
        { say: "You said {input}" },
      ];
    case "crash before a tool call":
      return [{ say: "I shall" }, { crash: "no" }];
    case "crash inside a tool call":
      return [{ say: "I shall" }, { tool: "look", open: true }, { crash: "no" }];
    case "crash after a tool call":
      return [{ tool: "look" }, { usage: { outputTokens: 9 } }, { crash: "no" }];
    case "timeout with the loop free":
      return [{ say: "I shall" }, { tool: "look", open: true }, { hang: true }];
    case "timeout with a child that hangs":
      return [{ tool: "sh", open: true }, { spawn: true, escape: true, pidFile }, { block: 60_000 }];
    case "cooperative stop at a boundary":
      return [...ROUND, { poll: true, every: 5 }];
    case "error after a deliberate stop":
      return [...ROUND, { poll: true, every: 5, thenThrow: "teardown" }];
    case "partial that cannot be built":
      return [{ tool: "look", open: true }, { breakRecord: "second error" }, { crash: "first error" }];
    case "a failure, then a clean turn":
      return [];
  }
}

agentContract(
  async (scenario) => {
    const place = new Place();
    const pidFile = join(place.folder, "pid");
    // The scripted agent goes by the attempt, and after a failure a new process begins with the first.
    const byInput = scenario === "a failure, then a clean turn";
    const config = ModuleConfig.parse({ type: "module", module: byInput ? "./defined.ts" : "./scripted.mjs" });
    const spec = moduleAgent("mine", config, { processes: place.processes, baseDir: FIXTURES });
    // A warm process, so that a deadline is one of the turn and not of its start.
    const first = spec.create(attemptInit());
    await first.start(startOptions());
    await first.communicate("warm up");
    return {
      agent: spec.create(attemptInit({ options: { script: scriptFor(scenario, pidFile) as never } })),
      start: startOptions({ workingDirectory: place.folder }),
      ...(byInput ? { input: "crash", nextInput: "again" } : {}),
      timeoutMs: 2000,
      isChildAlive: () => isProcessAlive(Number(readFileSync(pidFile, "utf8"))),
      dispose: async () => {
        await spec.close?.();
        place.checkEmpty();
        await place.close();
      },
    };
  },
  { describe, it },
  "agent contract: module",
);
