import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "vitest";
import { agentContract, type ContractScenario } from "../../src/agent/agent-contract.ts";
import { chatAgent } from "../../src/agents/chat/chat-agent.ts";
import { attemptInit, startOptions } from "../agents.ts";
import { ModelServer, type ModelReply, type ModelRequest } from "../model-server.ts";

const TOOLS = `export const tools = {
  look: { description: "looks", parameters: { type: "object" }, execute: () => "seen" },
  hang: { description: "never ends", parameters: { type: "object" }, execute: () => new Promise(() => {}) },
};`;

function replyFor(scenario: ContractScenario, { number }: ModelRequest): ModelReply {
  switch (scenario) {
    case "clean turn":
      return { text: "You said hello" };
    case "crash before a tool call":
      return { text: "I shall", then: "cut" };
    case "crash after a tool call":
      return number === 1 ? { tool: { name: "look" } } : { text: "and", then: "cut" };
    case "timeout with the loop free":
      return { text: "I shall", tool: { name: "hang" } };
    case "cooperative stop at a boundary":
    case "error after a deliberate stop":
    case "timeout with a child that hangs":
    case "crash inside a tool call":
      return { tool: { name: "look" } };
    case "partial that cannot be built":
      return { then: { said: { choices: "first error" } } };
    case "a failure, then a clean turn":
      return number === 1 ? { text: "wh", then: "cut" } : { text: "whole" };
  }
}

agentContract(
  async (scenario) => {
    if (scenario === "timeout with a child that hangs") return { cannot: "it starts no program" };
    if (scenario === "crash inside a tool call")
      return { cannot: "no tool is called before the answer is whole, and what a tool throws is its result" };
    if (scenario === "error after a deliberate stop")
      return { cannot: "when it is told to stop it calls nothing any more that could fail" };
    const server = await ModelServer.start((request) => replyFor(scenario, request));
    const folder = mkdtempSync(join(tmpdir(), "turnq-chat-"));
    writeFileSync(join(folder, "tools.mjs"), TOOLS);
    const spec = chatAgent(
      "chat",
      { type: "chat", provider: "openai-compatible", baseUrl: server.baseUrl, model: "m", tools: "./tools.mjs" },
      { baseDir: folder, env: {} },
    );
    await spec.prepare?.();
    const agent = spec.create(attemptInit());
    if (scenario === "partial that cannot be built") {
      Object.assign(agent, {
        buildRecord: () => {
          throw new Error("second error");
        },
      });
    }
    const dispose = async (): Promise<void> => {
      await server.close();
      rmSync(folder, { recursive: true });
    };
    return { agent, start: startOptions(), dispose };
  },
  { describe, it },
  "the contract of chat",
);
