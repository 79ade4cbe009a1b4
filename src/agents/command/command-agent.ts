import { textOf } from "../../domain/message.ts";
import { resolve } from "node:path";
import { Agent, type StartOptions, type TurnAnswer } from "../../agent/agent.ts";
import type { AgentSpec } from "../../agent/agent-spec.ts";
import type { JsonObject } from "../../domain/json.ts";
import type { AgentTurn } from "../../agent/ongoing-turn.ts";
import { Readying } from "../../agent/readying.ts";
import type { Processes } from "../../process/processes.ts";
import { turnMark } from "../../process/mark.ts";
import { programPath } from "../../process/program-path.ts";
import type { CommandConfig } from "./command-config.ts";
import { freshFolder } from "./fresh-folder.ts";
import { ProgramRun, type RunReport } from "./program-run.ts";

export interface CommandDeps {
  readonly processes: Processes;
  /** The config's folder. */
  readonly baseDir: string;
}

interface CommandSetup extends CommandDeps {
  readonly command: CommandConfig;
}

/** An agent that runs a program for each attempt. */
export class CommandAgent extends Agent<CommandSetup> {
  #run: ProgramRun | undefined;
  #report: RunReport | undefined;

  override start(options: StartOptions): Promise<void> {
    const { processes, command } = this.config;
    return super.start({ ...options, env: { ...processes.allowedEnv(command.env), ...options.env } });
  }

  override async kill(): Promise<void> {
    await super.kill();
    await this.#run?.ended;
  }

  override killSync(): void {
    this.#run?.killSync();
    super.killSync();
  }

  override getEnvironmentInfo(): JsonObject {
    const report = this.#report ?? this.#run?.report();
    return { program: this.config.command.command[0] ?? "", ...report };
  }

  protected override async takeTurn(turn: AgentTurn): Promise<TurnAnswer> {
    const { processes, command, baseDir } = this.config;
    if (command.freshFolder !== true) return this.#runIn(resolve(baseDir, command.cwd ?? "."), {}, turn);
    const { turn: id, attempt } = this.init;
    const folder = await freshFolder(baseDir, { store: processes.place.store, agent: this.name, turn: id, attempt });
    try {
      const { path } = folder;
      return await this.#runIn(path, { HOME: path, TMPDIR: path, TURNQ_CONFIG_DIR: resolve(baseDir) }, turn);
    } finally {
      await folder.remove();
    }
  }

  async #runIn(cwd: string, env: Readonly<Record<string, string>>, turn: AgentTurn): Promise<TurnAnswer> {
    const { processes, command, baseDir } = this.config;
    const run = new ProgramRun({
      processes,
      command: commandLine(command, baseDir),
      cwd,
      env: { ...this.environment, ...env },
      mark: this.#mark(),
      output: command.output,
      request: this.#request(turn),
      keepInputOpen: command.stop === "stdin",
      limits: { ...this.init.limits, ...(turn.timeoutMs === undefined ? {} : { timeoutMs: turn.timeoutMs }) },
      memoryMb: this.init.limits.maxMemoryMb ?? processes.memory.defaultMb,
      turn,
      markStopped: (reason) => this.markStopped(reason),
    });
    this.#run = run;
    try {
      return await run.finish();
    } finally {
      this.#report = run.report();
    }
  }

  /** What the program gets on its stdin. The target of the turn is never in it. */
  #request(turn: AgentTurn): string {
    if (this.config.command.input === "text") return textOf(turn.input);
    const { attempt, iteration, idempotencyKey, limits, options, metadata } = this.init;
    return JSON.stringify({
      turn: this.init.turn,
      attempt,
      iteration,
      idempotencyKey,
      input: turn.input,
      history: turn.history,
      limits,
      options,
      ...(metadata === undefined ? {} : { metadata }),
    });
  }

  #mark(): string {
    const { mark, turn, attempt } = this.init;
    return turnMark(mark, { ...this.config.processes.place, lane: this.name, turn, attempt });
  }
}

/** A relative program with a `/` in it is one of the config's folder, wherever it runs. */
function commandLine(command: CommandConfig, baseDir: string): string[] {
  const [program = "", ...args] = command.command;
  return [program.includes("/") ? resolve(baseDir, program) : program, ...args];
}

/** The agent that a `command` entry of the config describes. */
export function commandAgent(name: string, command: CommandConfig, deps: CommandDeps): AgentSpec {
  const { processes, baseDir } = deps;
  // A turn looks for it anew: it may be gone by then.
  const finding = new Readying(() => {
    const [program = ""] = commandLine(command, baseDir);
    const cwd = command.freshFolder === true ? baseDir : resolve(baseDir, command.cwd ?? ".");
    programPath(program, cwd, processes.allowedEnv(command.env));
  });
  return {
    name,
    lane: command.lane ?? name,
    kind: "command",
    abilities: {
      cooperativeStop: command.stop === "stdin",
      announcesCalls: false,
      boundsMemory: true,
      ...(command.reportsCost === true ? { knowsCost: true } : {}),
    },
    limits: command.limits,
    retry: command.retry,
    wantsMetadata: command.metadata,
    get lacking() {
      return finding.problem;
    },
    learn: () => finding.done(),
    again: () => finding.again(),
    create: (init) => new CommandAgent({ ...init, name, config: { ...deps, command } }),
  };
}
