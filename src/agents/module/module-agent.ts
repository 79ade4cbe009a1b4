import { messageOf } from "../../domain/error.ts";
import { Agent, type CostLogTags, type StartOptions, type TurnAnswer } from "../../agent/agent.ts";
import { unsupportedLimits, type AgentAbilities, type AgentSpec } from "../../agent/agent-spec.ts";
import type { AgentTurn } from "../../agent/ongoing-turn.ts";
import { failure } from "../../domain/failure.ts";
import type { JsonObject } from "../../domain/json.ts";
import { markText } from "../../process/mark.ts";
import type { ProcessHost } from "../../process/process-host.ts";
import { TranscriptBudget } from "../../process/transcript-budget.ts";
import type { ModuleConfig } from "./module-config.ts";
import type { Runner } from "./runner.ts";
import type { ModuleFacts } from "./runner-message.ts";
import { RunnerPool } from "./runner-pool.ts";

export interface ModuleDeps {
  readonly processes: ProcessHost;
  /** The config's folder. */
  readonly baseDir: string;
}

interface ModuleSetup {
  readonly pool: RunnerPool;
  readonly processes: ProcessHost;
  readonly module: ModuleConfig;
  readonly lane: string;
  readonly abilities: AgentAbilities;
  readonly costLogTags: CostLogTags | undefined;
}

/** How often the turn is asked whether to stop. The agent itself is told, and asks its own process. */
const POLL_MS = 50;
const ASSUMED: AgentAbilities = { cooperativeStop: true, announcesCalls: false, enforces: [] };

/** An agent whose code runs in a runner: whatever it does there, blocks or breaks, the worker goes on. */
export class ModuleAgent extends Agent<ModuleSetup> {
  #runner: Runner | undefined;
  #start: StartOptions | undefined;

  protected override get announcesCalls(): boolean {
    return this.config.abilities.announcesCalls;
  }

  override async start(options: StartOptions): Promise<void> {
    const { processes, module } = this.config;
    this.#start = { ...options, env: { ...processes.allowedEnv(module.env), ...options.env } };
    await super.start(this.#start);
  }

  override async kill(): Promise<void> {
    await super.kill();
    await this.#runner?.ended;
  }

  override killSync(): void {
    this.#runner?.killSync();
    super.killSync();
  }

  override getEnvironmentInfo(): JsonObject {
    return { module: this.config.module.module };
  }

  protected override async takeTurn(turn: AgentTurn): Promise<TurnAnswer> {
    const { pool } = this.config;
    const runner = pool.take();
    this.#runner = runner;
    try {
      const { abilities } = await runner.facts;
      const refused = unsupportedLimits(abilities, this.init.limits);
      if (refused !== undefined) return { failure: failure("invalid_request", refused) };
      return await this.#converse(turn, runner);
    } finally {
      // A runner that was killed is waited for, with all that it started.
      if (!runner.usable) runner.kill();
      if (!runner.usable) await runner.ended;
      else this.#runner = undefined;
      pool.giveBack(runner);
    }
  }

  async #converse(turn: AgentTurn, runner: Runner): Promise<TurnAnswer> {
    const { clock: _clock, config, name: _name, ...own } = this.init;
    const init = { ...own, mark: this.#mark(), costLogTags: config.costLogTags };
    const budget = new TranscriptBudget();
    let told = false;
    const poll = (): void => {
      if (told) return;
      const reason = turn.shouldStop();
      if (reason === undefined) return;
      told = true;
      runner.tellStop(reason);
    };
    const timer = setInterval(poll, POLL_MS);
    try {
      const { timeoutMs, maxSteps, input, history } = turn;
      const answered = runner.take({
        order: { init, start: this.#startOptions(), input, history, timeoutMs, maxSteps },
        deadlineAt: timeoutMs === undefined ? undefined : Date.now() + timeoutMs,
        onEvent: (event) => {
          const fitting = budget.fit(event);
          if (fitting !== undefined) turn.emit(fitting);
          poll();
        },
      });
      poll();
      const { record, stopReason } = await answered;
      if (stopReason !== undefined) this.markStopped(stopReason);
      return { record, failure: record?.status === "failed" ? record.failure : undefined };
    } finally {
      clearInterval(timer);
    }
  }

  #startOptions(): StartOptions {
    return this.#start ?? { workingDirectory: ".", env: {} };
  }

  #mark(): string {
    const { processes, lane } = this.config;
    return this.init.mark === ""
      ? markText({ ...processes.place, lane, turn: this.init.turn, attempt: this.init.attempt })
      : this.init.mark;
  }
}

/** The agent that a `module` entry of the config describes. `close` ends its runners. */
export function moduleAgent(name: string, module: ModuleConfig, deps: ModuleDeps): AgentSpec {
  const { processes, baseDir } = deps;
  const lane = module.lane ?? name;
  let facts: ModuleFacts | undefined;
  let problem: string | undefined;
  let learning: Promise<void> | undefined;
  const learn = async (): Promise<void> => {
    try {
      facts = await probeModule(name, module, deps);
    } catch (error) {
      problem = messageOf(error);
    }
  };
  const pool = new RunnerPool({ name, lane, module, processes, baseDir });
  return {
    name,
    lane,
    kind: "module",
    get abilities() {
      return facts?.abilities ?? ASSUMED;
    },
    limits: module.limits,
    retry: module.retry,
    get wantsCostLogTags() {
      return facts?.wantsCostLogTags;
    },
    get problem() {
      return problem;
    },
    learn: () => (learning ??= learn()),
    create: (init) => {
      // The tags are for the module's class; this one has no use for them.
      const { costLogTags, ...rest } = init;
      const abilities = facts?.abilities ?? ASSUMED;
      return new ModuleAgent({ ...rest, name, config: { pool, processes, module, lane, abilities, costLogTags } });
    },
    close: () => pool.close(),
  };
}

/**
 * Loads the module in a process of its own and says what its agent can do, so that a request which
 * asks for more is refused when it is submitted.
 * @throws ProcessFailure with failure code `config` that names the file
 */
export async function probeModule(
  name: string,
  module: ModuleConfig,
  deps: Pick<ModuleDeps, "processes" | "baseDir">,
): Promise<ModuleFacts> {
  const pool = new RunnerPool({ ...deps, name, lane: module.lane ?? name, module });
  try {
    return await pool.take().facts;
  } finally {
    await pool.close();
  }
}
