import { expect, test } from "vitest";
import { unsupportedLimits, type AgentSpec } from "../../../src/agent/agent-spec.ts";
import { chatAgent } from "../../../src/agents/chat/chat-agent.ts";
import { ChatConfig } from "../../../src/agents/chat/chat-config.ts";
import { commandAgent } from "../../../src/agents/command/command-agent.ts";
import { CommandConfig } from "../../../src/agents/command/command-config.ts";
import type { Processes } from "../../../src/process/processes.ts";

const chat = (more: object): AgentSpec =>
  chatAgent("a", ChatConfig.parse({ type: "chat", baseUrl: "http://127.0.0.1:9/v1", model: "m", ...more }), {
    baseDir: "/",
    env: {},
  });
const command = (more: object): AgentSpec =>
  commandAgent("a", CommandConfig.parse({ type: "command", command: ["a"], output: "events", ...more }), {
    baseDir: "/",
    processes: {} as Processes,
  });

test.each<[string, AgentSpec, boolean]>([
  ["chat with a price", chat({ price: { inputPerMTok: 1, outputPerMTok: 1 } }), true],
  ["chat without one", chat({}), false],
  ["a command that reports its cost and can be stopped", command({ stop: "stdin", reportsCost: true }), true],
  ["a command that does not say so", command({ stop: "stdin" }), false],
  ["a command that cannot be stopped", command({ reportsCost: true }), false],
])("a limit on cost on %s: held %s", (_name, { abilities }, held) => {
  const problem = unsupportedLimits(abilities, { maxCostUsd: 1 });
  if (held) expect(problem).toBeUndefined();
  else expect(problem).toContain("limits.maxCostUsd needs an agent");
});
