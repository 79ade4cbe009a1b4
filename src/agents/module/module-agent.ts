import { Agent, type CostLogTags, type StartOptions, type TurnAnswer } from "../../agent/agent.ts";
import { unsupportedLimits, type AgentAbilities, type AgentSpec } from "../../agent/agent-spec.ts";
import type { AgentTurn } from "../../agent/ongoing-turn.ts";
import { Readying } from "../../agent/readying.ts";
import { failure } from "../../domain/failure.ts";
import type { JsonObject } from "../../domain/json.ts";
import { turnMark } from "../../process/mark.ts";
import type { Processes } from "../../process/processes.ts";
import type { ModuleConfig } from "./module-config.ts";
import type { Runner } from "./runner.ts";
import type { ModuleFacts } from "./runner-message.ts";
import { RunnerPool } from "./runner-pool.ts";

export interface ModuleDeps {
  readonly processes: Processes;
  /** The config's folder. */
  readonly baseDir: string;
}

interface ModuleSetup {
  readonly pool: RunnerPool;
  readonly processes: Processes;
  readonly module: ModuleConfig;
  readonly lane: string;
  readonly abilities: AgentAbilities;
  readonly costLogTags: CostLogTags | undefined;
}

/** How often the turn is asked whether to stop. The agent itself is told, and asks its own process. */
const POLL_MS = 50;
const ASSUMED: AgentAbilities = { cooperativeStop: true, announcesCalls: false, boundsMemory: true };

/** What an agent can do in a runner, by what it could do in a worker. */
function inItsProcess(abilities: AgentAbilities): AgentAbilities {
  return { ...abilities, boundsMemory: true };
}

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
    const isOver = (): boolean => turn.signal.aborted || (turn.leftMs ?? 1) <= 0;
    return await this.config.pool.use(
      async (runner) => {
        this.#runner = runner;
        try {
          const abilities = inItsProcess((await runner.facts).abilities);
          const refused = unsupportedLimits(abilities, this.init.limits);
          if (refused !== undefined) return { failure: failure("invalid_request", refused) };
          return await this.#converse(turn, runner);
        } finally {
          // From now on it may be another turn's.
          if (runner.usable) this.#runner = undefined;
        }
      },
      { memoryMb: this.init.limits.maxMemoryMb, isOver },
    );
  }

  async #converse(turn: AgentTurn, runner: Runner): Promise<TurnAnswer> {
    const leftMs = turn.leftMs;
    const { clock: _clock, config, name: _name, ...own } = this.init;
    const init = { ...own, mark: this.#mark(), costLogTags: config.costLogTags };
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
        order: { init, start: this.#startOptions(), input, history, timeoutMs: leftMs, maxSteps },
        // Loading the module was part of the attempt.
        deadlineAt: leftMs === undefined ? undefined : Date.now() + leftMs,
        timeoutMs,
        onEvent: (event) => {
          if (event.type === "call_start")
            void turn.announceCall(event.model, event).then((mayCall) => runner.tellStored(mayCall));
          else turn.emit(event);
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
    const { mark, turn, attempt } = this.init;
    return turnMark(mark, { ...processes.place, lane, turn, attempt });
  }
}

/** The agent that a `module` entry of the config describes. `close` ends its runners. */
export function moduleAgent(name: string, module: ModuleConfig, deps: ModuleDeps): AgentSpec {
  const { processes, baseDir } = deps;
  const lane = module.lane ?? name;
  let facts: ModuleFacts | undefined;
  const pool = new RunnerPool({ name, lane, module, processes, baseDir });
  const loading = new Readying(async () => {
    // The runner stays warm for the first turn.
    facts = await pool.use((runner) => runner.facts);
  });
  return {
    name,
    lane,
    kind: "module",
    get abilities() {
      return facts === undefined ? ASSUMED : inItsProcess(facts.abilities);
    },
    limits: module.limits,
    retry: module.retry,
    get wantsCostLogTags() {
      return facts?.wantsCostLogTags;
    },
    get wantsMetadata() {
      return module.metadata ?? facts?.wantsMetadata;
    },
    get problem() {
      return loading.problem;
    },
    learn: () => loading.done(),
    again: () => loading.again(),
    create: (init) => {
      // The tags are for the module's class; this one has no use for them.
      const { costLogTags, ...rest } = init;
      const abilities = facts?.abilities ?? ASSUMED;
      return new ModuleAgent({ ...rest, name, config: { pool, processes, module, lane, abilities, costLogTags } });
    },
    close: () => pool.close(),
  };
}
