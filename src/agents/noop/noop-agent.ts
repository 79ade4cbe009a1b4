import { Agent, type TurnAnswer } from "../../agent/agent.ts";
import type { AgentSpec } from "../../agent/agent-spec.ts";
import { agentClassSpec, type SpecOptions } from "../../agent/class-spec.ts";

const NOTHING: TurnAnswer = Object.freeze({ output: "" });

/** Answers with nothing at once: the cheapest path through a worker, for measurements. */
export class NoopAgent extends Agent<undefined> {
  static override readonly supportsCooperativeStop = true;
  static override readonly announcesCalls = true;

  protected override takeTurn(): Promise<TurnAnswer> {
    return Promise.resolve(NOTHING);
  }
}

/** The built-in agent `noop`. */
export function noopAgent(name = "noop", options: SpecOptions = {}): AgentSpec {
  return agentClassSpec(name, NoopAgent, undefined, { ...options, kind: "noop" });
}
