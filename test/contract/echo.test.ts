import { describe, it } from "vitest";
import { agentContract } from "../../src/agent/agent-contract.ts";
import { echoAgent } from "../../src/agents/echo/echo-agent.ts";
import { attemptInit, startOptions } from "../agents.ts";

agentContract(
  (scenario) => {
    if (scenario !== "clean turn") return { cannot: "echo answers at once, calls no tool and never fails" };
    return { agent: echoAgent().create(attemptInit()), start: startOptions() };
  },
  { describe, it },
  "agent contract: echo",
);
