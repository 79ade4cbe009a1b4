import { spawn, type ChildProcess } from "node:child_process";
import { describe, it } from "vitest";
import { agentContract, type ContractScenario } from "../../src/agent/agent-contract.ts";
import { defineAgent, specOf, type AgentFunction } from "../../src/agent/define-agent.ts";
import { attemptInit, startOptions } from "../agents.ts";

const rounds =
  (teardown?: string): AgentFunction =>
  async ({ emit, shouldStop }) => {
    for (;;) {
      await emit.tool("look", {}, () => 1);
      emit.stepEnd();
      if (shouldStop() !== undefined) break;
    }
    if (teardown !== undefined) throw new Error(teardown);
    return "so far";
  };

const never = new Promise<never>(() => undefined);

function playing(scenario: ContractScenario, children: ChildProcess[]): AgentFunction | string {
  switch (scenario) {
    case "clean turn":
      return async ({ emit, text }) => {
        emit.text("You ");
        await emit.tool("look", { at: text }, () => new Map([["a", 1n]]));
        emit.usage({ inputTokens: 3, outputTokens: 4, costUsd: 0.1 });
        emit.usage({ inputTokens: 3, outputTokens: 4, costUsd: 0.2 });
        return `You said ${text}`;
      };
    case "crash before a tool call":
      return ({ emit }) => {
        emit.text("half");
        throw new Error("no");
      };
    case "crash inside a tool call":
      return ({ emit }) => {
        emit.toolStart("look");
        throw new Error("no");
      };
    case "crash after a tool call":
      return async ({ emit }) => {
        await emit.tool("look", {}, () => "seen");
        // oxlint-disable-next-line typescript/only-throw-error -- agents throw anything
        throw null;
      };
    case "timeout with the loop free":
      return async ({ emit }) => {
        emit.text("half");
        emit.toolStart("look");
        return await never;
      };
    case "timeout with a child that hangs":
      return async ({ signal }) => {
        const child = spawn(process.execPath, ["-e", "setInterval(() => 0, 1e6)"], {
          stdio: "ignore",
          signal,
          killSignal: "SIGKILL",
        });
        child.on("error", () => undefined);
        children.push(child);
        await new Promise((resolve) => child.once("exit", resolve));
      };
    case "cooperative stop at a boundary":
      return rounds();
    case "error after a deliberate stop":
      return rounds("teardown");
    case "partial that cannot be built":
      return "the record of a function is built from clean events alone and can always be built";
    case "a failure, then a clean turn":
      return ({ text }) => {
        if (text === "fail") throw new Error("no");
        return "whole";
      };
  }
}

agentContract(
  async (scenario) => {
    const children: ChildProcess[] = [];
    const run = playing(scenario, children);
    if (typeof run === "string") return { cannot: run };
    const agent = specOf(defineAgent("value", run)).create(attemptInit());
    return {
      agent,
      start: startOptions(),
      timeoutMs: 200,
      ...(scenario === "a failure, then a clean turn" ? { input: "fail" } : {}),
      isChildAlive: async () => {
        const alive = children.filter((child) => child.exitCode === null && child.signalCode === null);
        await Promise.all(alive.map(async (child) => await new Promise((resolve) => child.once("exit", resolve))));
        return false;
      },
    };
  },
  { describe, it },
  "agent contract: defineAgent",
);
