import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "vitest";
import { agentContract, type ContractScenario } from "../../src/agent/agent-contract.ts";
import { CommandAgent } from "../../src/agents/command/command-agent.ts";
import { CommandConfig } from "../../src/agents/command/command-config.ts";
import type { TurnRecord } from "../../src/domain/turn-record.ts";
import { attemptInit, isProcessAlive, startOptions } from "../agents.ts";
import { Place } from "../integration/agents/attempt.ts";

const PRELUDE = `
  const fs = require("node:fs");
  const say = (line) => fs.writeSync(1, JSON.stringify(line) + "\\n");
  const tool = (id) => say({ type: "tool_start", id, name: "look", args: {} });
  const toolEnd = (id) => say({ type: "tool_end", id, result: 1 });
  const fail = (text) => { fs.writeSync(2, text); process.exit(1); };
  const hang = () => setInterval(() => {}, 1000);
  const onLine = (take) => { let text = ""; process.stdin.on("data", (part) => { text += part; const lines = text.split("\\n"); text = lines.pop(); lines.forEach((line) => take(JSON.parse(line))); }); };
  const round = () => { tool("t"); toolEnd("t"); say({ type: "usage", inputTokens: 5, outputTokens: 2 }); say({ type: "step_end" }); };
`;

function codeFor(scenario: ContractScenario, pidFile: string): string {
  switch (scenario) {
    case "clean turn":
      return `say({ type: "text", text: "Hi." }); tool("a"); toolEnd("a"); say({ type: "usage", inputTokens: 3 }); say({ type: "result", output: "You said hello" })`;
    case "crash before a tool call":
      return `say({ type: "text", text: "I shall" }); fail("no")`;
    case "crash inside a tool call":
      return `tool("a"); fail("no")`;
    case "crash after a tool call":
      return `tool("a"); toolEnd("a"); say({ type: "usage", outputTokens: 9 }); fail("no")`;
    case "timeout with the loop free":
      return `say({ type: "text", text: "I shall" }); tool("a"); hang()`;
    case "timeout with a child that hangs":
      return `
        const child = require("node:child_process").spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { detached: true, stdio: "inherit" });
        fs.writeFileSync(${JSON.stringify(pidFile)}, String(child.pid));
        tool("a"); hang()`;
    case "cooperative stop at a boundary":
      return `round(); onLine((line) => { if (line.type === "stop") { say({ type: "result", output: "half" }); process.exit(0); } })`;
    case "error after a deliberate stop":
      return `round(); onLine((line) => { if (line.type === "stop") fail("teardown"); })`;
    case "partial that cannot be built":
      return `tool("a"); fail("first error")`;
    case "a failure, then a clean turn":
      return `onLine((line) => { if (line.input === "hello") fail("no"); say({ type: "result", output: "whole" }); process.exit(0); })`;
  }
}

class UnbuildableAgent extends CommandAgent {
  protected override buildRecord(): TurnRecord {
    throw new Error("second error");
  }
}

agentContract(
  (scenario) => {
    const place = new Place();
    const pidFile = join(place.folder, "pid");
    const code = PRELUDE + codeFor(scenario, pidFile);
    const command = CommandConfig.parse({
      type: "command",
      command: [process.execPath, "-e", code],
      output: "events",
      stop: "stdin",
    });
    const Class = scenario === "partial that cannot be built" ? UnbuildableAgent : CommandAgent;
    return {
      agent: new Class({ ...attemptInit(), name: "prog", config: { ...place.deps, command } }),
      start: startOptions({ workingDirectory: place.folder }),
      nextInput: "again",
      timeoutMs: 3000,
      isChildAlive: () => isProcessAlive(Number(readFileSync(pidFile, "utf8"))),
      dispose: async () => {
        place.checkEmpty();
        await place.close();
      },
    };
  },
  { describe, it },
  "agent contract: command",
);
