import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "vitest";
import { agentContract, type ContractScenario } from "../../src/agent/agent-contract.ts";
import { scriptedAgent } from "../../src/agents/scripted/scripted-agent.ts";
import type { Action, Script } from "../../src/agents/scripted/script.ts";
import { attemptInit, isProcessAlive, startOptions } from "../agents.ts";

const rounds: readonly Action[] = Array.from({ length: 50 }).flatMap(() => [
  { call: true },
  { usage: { inputTokens: 5, outputTokens: 2 } },
  { tool: "look", result: 1 },
  { stepEnd: true },
  { poll: true, thenThrow: "" },
]);

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
      return [{ tool: "sh", open: true }, { spawn: true, pidFile }, { hang: true }];
    case "cooperative stop at a boundary":
      return rounds.map((action) => ("poll" in action ? { poll: true } : action));
    case "error after a deliberate stop":
      return rounds.map((action) => ("poll" in action ? { poll: true, thenThrow: "teardown" } : action));
    case "partial that cannot be built":
      return [{ tool: "look", open: true }, { breakRecord: "second error" }, { crash: "first error" }];
    case "a failure, then a clean turn":
      return { "1": [{ say: "half" }, { crash: "no" }], "2": [{ say: "whole" }] };
  }
}

agentContract(
  (scenario) => {
    const dir = mkdtempSync(join(tmpdir(), "turnq-"));
    const pidFile = join(dir, "pid");
    const agent = scriptedAgent("scripted", { script: scriptFor(scenario, pidFile) }).create(attemptInit());
    return {
      agent,
      start: startOptions({ workingDirectory: dir }),
      timeoutMs: 200,
      isChildAlive: () => isProcessAlive(Number(readFileSync(pidFile, "utf8"))),
      dispose: () => rmSync(dir, { recursive: true, force: true }),
    };
  },
  { describe, it },
  "agent contract: scripted",
);
