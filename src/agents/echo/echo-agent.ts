import { textOf } from "../../domain/message.ts";
import { Agent, type TurnAnswer } from "../../agent/agent.ts";
import type { AgentSpec } from "../../agent/agent-spec.ts";
import { agentClassSpec, type SpecOptions } from "../../agent/class-spec.ts";
import type { AgentTurn } from "../../agent/ongoing-turn.ts";

/** Answers with the text of its input. It calls no model, so its usage is known to be nothing. */
export class EchoAgent extends Agent<undefined> {
  static override readonly supportsCooperativeStop = true;
  static override readonly announcesCalls = true;

  protected override takeTurn(turn: AgentTurn): Promise<TurnAnswer> {
    if (turn.shouldStop() === undefined) return Promise.resolve({ output: textOf(turn.input) });
    this.markStopped();
    return Promise.resolve({ output: "" });
  }
}

/** The built-in agent `echo`. */
export function echoAgent(name = "echo", options: SpecOptions = {}): AgentSpec {
  return agentClassSpec(name, EchoAgent, undefined, { ...options, kind: "echo" });
}
