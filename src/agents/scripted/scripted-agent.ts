import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, existsSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { TurnqError } from "../../domain/error.ts";
import { textOf } from "../../domain/message.ts";
import type { StopReason } from "../../domain/stop-reason.ts";
import type { TurnRecord } from "../../domain/turn-record.ts";
import { Agent, type TurnAnswer } from "../../agent/agent.ts";
import type { AgentSpec } from "../../agent/agent-spec.ts";
import { agentClassSpec, type SpecOptions } from "../../agent/class-spec.ts";
import { emitterFor, type Emitter } from "../../agent/emitter.ts";
import type { EventCollector } from "../../agent/event-collector.ts";
import type { AgentTurn, TurnEnd } from "../../agent/ongoing-turn.ts";
import { fieldProblem, problemsOf } from "../../parse/problem.ts";
import { Script, actionsOf, type Action, type ScriptedConfig } from "./script.ts";

const HANGING_PROGRAM = "setInterval(() => undefined, 1_000_000)";
const WAIT_FOR_FILE_MS = 5;

/** What a scripted turn has come to; undefined means: go on. */
type Ended = TurnAnswer | undefined;

/** For tests: does what its script says, cue by cue, the bad things too. */
export class ScriptedAgent extends Agent<ScriptedConfig | null | undefined> {
  static override readonly supportsCooperativeStop = true;
  static override readonly announcesCalls = true;
  readonly #children = new Set<ChildProcess>();
  #turns = 0;
  #broken: string | undefined;

  override killSync(): void {
    for (const { pid } of this.#children) {
      if (pid !== undefined) killGroup(pid);
    }
    super.killSync();
  }

  override async kill(): Promise<void> {
    await super.kill();
    await Promise.all([...this.#children].map(async (child) => await once(child, "exit")));
  }

  override async stop(): Promise<void> {
    await this.kill();
    await super.stop();
  }

  protected override async takeTurn(turn: AgentTurn): Promise<TurnAnswer> {
    const emit = emitterFor(turn);
    // A second turn of one instance plays the next attempt's part.
    const number = this.init.attempt + this.#turns;
    this.#turns += 1;
    for (const action of actionsOf(this.#script(), number)) {
      turn.signal.throwIfAborted();
      const ended = await this.#act(action, turn, emit);
      if (ended !== undefined) return ended;
    }
    return {};
  }

  protected override buildRecord(collector: EventCollector, end: TurnEnd): TurnRecord {
    if (this.#broken !== undefined) throw new Error(this.#broken);
    return super.buildRecord(collector, end);
  }

  #script(): Script | undefined {
    const own = this.init.options["script"];
    if (own === undefined) return this.config?.script;
    const parsed = Script.safeParse(own);
    if (parsed.success) return parsed.data;
    const problems = problemsOf(parsed.error, own, Script).map(fieldProblem);
    throw new TurnqError("config", `options.script is no script: ${problems.join("; ")}`, {
      where: `agent ${this.name}`,
    });
  }

  async #act(action: Action, turn: AgentTurn, emit: Emitter): Promise<Ended> {
    if ("say" in action) emit.text(this.#fill(action.say, turn));
    else if ("think" in action) emit.thought(this.#fill(action.think, turn));
    else if ("call" in action) await announce(emit, action.call);
    else if ("usage" in action) emit.usage(action.usage);
    else if ("plan" in action) emit.plan(action.plan);
    else if ("stepEnd" in action) emit.stepEnd({ success: action.stepEnd });
    else if ("tool" in action) await this.#callTool(action, turn, emit);
    else if ("answer" in action) return { output: this.#fill(action.answer, turn) };
    else if ("fail" in action) return { failure: action.fail };
    else if ("stop" in action) return this.#stopFor(action.stop);
    else if ("poll" in action) return await this.#poll(action, turn);
    else await this.#misbehave(action, turn);
    return undefined;
  }

  async #misbehave(action: Exclude<Action, { say: string }>, turn: AgentTurn): Promise<void> {
    if ("crash" in action) throw new Error(this.#fill(action.crash, turn));
    if ("breakRecord" in action) this.#broken = action.breakRecord;
    else if ("wait" in action) await sleep(action.wait, undefined, { signal: turn.signal });
    else if ("waitFor" in action) await waitForFile(action.waitFor, turn.signal);
    else if ("hang" in action) await new Promise<never>(() => undefined);
    else if ("block" in action) block(action.block);
    else if ("spawn" in action) this.#spawn(action);
    else if ("exit" in action) await exitAs(action.exit);
    else if ("append" in action) appendFileSync(action.append, `${this.#fill(action.line, turn)}\n`);
  }

  async #callTool(action: Extract<Action, { tool: string }>, turn: AgentTurn, emit: Emitter): Promise<void> {
    const id = emit.toolStart(action.tool, action.args);
    if (action.ms !== undefined) await sleep(action.ms, undefined, { signal: turn.signal });
    if (action.open !== true) emit.toolEnd(id, action.result, action.status);
  }

  async #poll(action: Extract<Action, { poll: true }>, turn: AgentTurn): Promise<Ended> {
    let reason = turn.shouldStop();
    while (reason === undefined && action.every !== undefined) {
      await sleep(action.every, undefined, { signal: turn.signal });
      reason = turn.shouldStop();
    }
    if (reason === undefined) return undefined;
    this.markStopped(reason);
    if (action.thenThrow !== undefined) throw new Error(action.thenThrow);
    return {};
  }

  #stopFor(reason: StopReason): TurnAnswer {
    this.markStopped(reason);
    return {};
  }

  #spawn({ escape, pidFile }: Extract<Action, { spawn: true }>): void {
    const child = spawn(process.execPath, ["-e", HANGING_PROGRAM], {
      cwd: this.workingDirectory,
      env: { ...this.environment },
      detached: true,
      stdio: "ignore",
    });
    const forget = (): unknown => this.#children.delete(child);
    child.once("error", forget);
    if (escape === true) child.unref();
    else this.#children.add(child.once("exit", forget));
    if (pidFile !== undefined) writeFileSync(pidFile, String(child.pid));
  }

  #fill(text: string, turn: AgentTurn): string {
    const facts: Readonly<Record<string, string>> = {
      input: textOf(turn.input),
      turn: this.init.turn,
      attempt: String(this.init.attempt),
      iteration: String(this.iteration),
      history: String(turn.history.length),
    };
    return text.replaceAll(/\{(\w+)\}/g, (whole, name: string) => facts[name] ?? whole);
  }
}

/** A scripted agent under this name. */
export function scriptedAgent(name = "scripted", config: ScriptedConfig = {}, options: SpecOptions = {}): AgentSpec {
  return agentClassSpec(name, ScriptedAgent, config, { ...options, kind: "scripted" });
}

async function announce(emit: Emitter, model: true | string): Promise<void> {
  emit.stepStart();
  await emit.call(model === true ? undefined : model);
}

/** Sleeps without letting anything else of this process run. */
function block(blockMs: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, blockMs);
}

async function waitForFile(path: string, signal: AbortSignal): Promise<void> {
  while (!existsSync(path)) await sleep(WAIT_FOR_FILE_MS, undefined, { signal });
}

async function exitAs(how: number | NodeJS.Signals): Promise<never> {
  if (typeof how === "number") process.exit(how);
  process.kill(process.pid, how);
  return await new Promise<never>(() => undefined);
}

function killGroup(pid: number): void {
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // it has ended already
  }
}
