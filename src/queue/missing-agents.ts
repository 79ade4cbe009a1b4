import type { AgentSpec } from "../agent/agent-spec.ts";
import type { Clock } from "../agent/deadline.ts";
import { messageOf, TurnqError } from "../domain/error.ts";
import type { Log } from "../telemetry/log.ts";

/** An agent that a worker was to run and cannot, and why. */
export interface MissingAgent {
  readonly agent: string;
  readonly problem: string;
}

/** How often what is missing is tried again, in ms. */
export const TRY_AGAIN_EVERY_MS = 10_000;

/** Agents that can run here, and those that cannot, each with why. */
export interface ReadiedAgents {
  readonly working: readonly AgentSpec[];
  readonly missing: ReadonlyMap<AgentSpec, string>;
}

/** Loads what these agents need, once more where it failed before. Never rejects. */
export async function readyAgents(specs: readonly AgentSpec[]): Promise<ReadiedAgents> {
  const problems = await Promise.all(specs.map((spec) => readied(spec)));
  const missing = new Map<AgentSpec, string>();
  for (const [i, spec] of specs.entries()) {
    const problem = problems[i];
    if (problem !== undefined) missing.set(spec, problem);
  }
  return { working: specs.filter((spec) => !missing.has(spec)), missing };
}

/** Why it cannot run here; undefined when it can. */
async function readied(spec: AgentSpec): Promise<string | undefined> {
  spec.again?.();
  await spec.learn?.();
  await spec.prepare?.();
  return spec.problem ?? spec.lacking;
}

/** What refuses a worker that would have to do without some of its agents. */
export function missingError(missing: ReadonlyMap<AgentSpec, string>, wanted: number): TurnqError {
  const named = [...missing].map(([{ name }, problem]) => `${name} (${problem})`);
  const which = missing.size === 1 ? "an agent" : `${missing.size} agents`;
  return new TurnqError("config", `${which} of ${wanted} cannot run here: ${named.join("; ")}`, {
    where: "worker",
    hint: "Correct or leave out what is named, or let the worker start without it: allowMissing, on the command line --allow-missing.",
    details: { missing: missingList(missing) },
  });
}

function missingList(missing: ReadonlyMap<AgentSpec, string>): MissingAgent[] {
  return [...missing].map(([{ name }, problem]) => ({ agent: name, problem }));
}

export interface MissingAgentsOptions {
  readonly missing: ReadonlyMap<AgentSpec, string>;
  /** Takes up an agent that can run now. When it rejects the agent stays missing, and is tried again. */
  readonly serve: (spec: AgentSpec) => Promise<void>;
  readonly clock: Clock;
  readonly log: Log;
}

/** The agents that a worker does without for now: tried again every 10 s, since what they lack may come. */
export class MissingAgents {
  readonly #missing: Map<AgentSpec, string>;
  readonly #options: MissingAgentsOptions;
  #callOff: () => void = () => undefined;
  #stopped = false;

  constructor(options: MissingAgentsOptions) {
    this.#options = options;
    this.#missing = new Map(options.missing);
  }

  get list(): readonly MissingAgent[] {
    return missingList(this.#missing);
  }

  start(): void {
    for (const { agent, problem } of this.list)
      this.#options.log.warn({ agent, problem }, "an agent cannot run here: it is tried again every 10 s");
    this.#schedule();
  }

  stop(): void {
    this.#stopped = true;
    this.#callOff();
  }

  #schedule(): void {
    if (this.#stopped || this.#missing.size === 0) return;
    const round = (): void => void this.#round().finally(() => this.#schedule());
    this.#callOff = this.#options.clock.setTimer(TRY_AGAIN_EVERY_MS, round);
  }

  async #round(): Promise<void> {
    await Promise.all([...this.#missing.keys()].map((spec) => this.#tryAgain(spec)));
  }

  async #tryAgain(spec: AgentSpec): Promise<void> {
    const problem = await readied(spec);
    if (this.#stopped) return;
    if (problem !== undefined) {
      this.#missing.set(spec, problem);
      return;
    }
    const { log, serve } = this.#options;
    try {
      await serve(spec);
      this.#missing.delete(spec);
      log.info({ agent: spec.name, lane: spec.lane }, "an agent that was missing can run: its turns are taken");
    } catch (error) {
      log.warn({ agent: spec.name, error: messageOf(error) }, "an agent that can run is not served yet");
    }
  }
}
