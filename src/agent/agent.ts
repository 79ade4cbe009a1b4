import { delimiter } from "node:path";
import { TurnqError, messageOf } from "../domain/error.ts";
import { failure } from "../domain/failure.ts";
import type { JsonObject } from "../domain/json.ts";
import type { StopReason } from "../domain/stop-reason.ts";
import { crashReason, endedWell, type TurnRecord } from "../domain/turn-record.ts";
import type { Input } from "../domain/turn-request.ts";
import { totalTokens } from "../domain/usage.ts";
import { systemClock, type Clock } from "./deadline.ts";
import type { AgentInit, AgentState, CommunicateOptions, StartOptions, TurnAnswer } from "./agent-init.ts";
import { cleanAnswer } from "./clean-answer.ts";
import { EventCollector } from "./event-collector.ts";
import { OngoingTurn, type AgentTurn, type Finalize, type Outcome, type TurnEnd } from "./ongoing-turn.ts";
import { endOfStop } from "./verdict.ts";
import { TranscriptBudget } from "./transcript-budget.ts";
import { AgentCrashError, TurnTimeoutError, agentFailure, isCrash, normalizeThrown } from "./turn-errors.ts";

export type { AgentInit, AgentState, CommunicateOptions, CostLogTags, StartOptions, TurnAnswer } from "./agent-init.ts";

/** See {@link isAgentClass} in `class-spec.ts`. */
export const AGENT_CLASS: unique symbol = Symbol.for("turnq.agentClass") as never;

/**
 * An agent. A subclass writes {@link Agent.takeTurn}; deadline, kill, stop, events and record are
 * done here. It must not write `communicate` anew unless it keeps that method's contract.
 *
 * The caller owns the order: `start`, `communicate` (one at a time), after a failure read
 * `pendingTurn` and call `discardPendingTurn`, at last `stop` or `kill`.
 */
export abstract class Agent<Config = unknown> {
  /** Tells an Agent class, also of another copy of this package. */
  static readonly [AGENT_CLASS] = true;
  /** It polls `shouldStop` at its safe boundaries. */
  static readonly supportsCooperativeStop: boolean = false;
  /** Its constructor takes `costLogTags`. */
  static readonly supportsCostLogTags: boolean = false;
  /** It is shown the turn's metadata: `init.metadata`, and `turn.metadata` in {@link Agent.takeTurn}. */
  static readonly wantsMetadata: boolean = false;
  /** It emits `call_start` before each model call. */
  static readonly announcesCalls: boolean = false;
  /** It reports `costUsd` with its usage: a limit on cost can hold. */
  static readonly knowsCost: boolean = false;
  /** It reports tokens for every step: a turn with steps and no tokens is then a crash. */
  static readonly reportsTokens: boolean = false;

  readonly name: string;
  protected readonly config: Config;
  protected readonly init: AgentInit<Config>;
  readonly #clock: Clock;
  #state: AgentState = "idle";
  #started: StartOptions | undefined;
  #iteration: number;
  #failed = false;
  #pendingTurn: TurnRecord | undefined;
  #turn: OngoingTurn | undefined;

  constructor(init: AgentInit<Config>) {
    const { name, costLogTags } = init;
    if (costLogTags !== undefined && !this.#class.supportsCostLogTags) {
      throw new TurnqError(
        "unsupported",
        `agent ${name}: costLogTags was given to a class without supportsCostLogTags`,
      );
    }
    if (costLogTags !== undefined && (costLogTags.turn !== init.turn || costLogTags.agent !== name)) {
      throw new TurnqError(
        "config",
        `agent ${name}: costLogTags are those of ${costLogTags.agent}, ${costLogTags.turn}`,
      );
    }
    this.name = name;
    this.config = init.config;
    this.init = init;
    this.#clock = init.clock ?? systemClock;
    this.#iteration = init.iteration - 1;
  }

  /** The number of turns in the session, this one included once it has begun; never below 0. */
  get iteration(): number {
    return this.#iteration;
  }

  /** The partial record of a turn that threw, until it is discarded or the next turn begins. */
  get pendingTurn(): TurnRecord | undefined {
    return this.#pendingTurn;
  }

  getState(): AgentState {
    return this.#state;
  }

  /** The options that the agent hands to its model or program. */
  getSdkOptions(): JsonObject {
    return this.init.options;
  }

  /** Facts about where the agent ran; merged into the record. */
  getEnvironmentInfo(): JsonObject {
    return {};
  }

  /** Makes ready. A subclass that needs more calls `super.start(options)` first. */
  start(options: StartOptions): Promise<void> {
    this.#started = options;
    return Promise.resolve();
  }

  /**
   * Takes one turn. Resolves with its record, also when the agent said that it failed, was stopped
   * or cancelled. Throws `not_started`, {@link TurnTimeoutError} or {@link AgentCrashError}; before
   * the last two it parks the partial record in {@link Agent.pendingTurn}.
   */
  async communicate(input: Input, options: CommunicateOptions = {}): Promise<TurnRecord> {
    if (this.#started === undefined) {
      throw new TurnqError("not_started", `agent ${this.name}: communicate was called before start`);
    }
    if (this.#state === "working") {
      throw new TurnqError("unsupported", `agent ${this.name}: a turn is going on; an agent takes one at a time`);
    }
    this.beginTurn();
    const turn = this.#openTurn(input, options);
    this.#turn = turn;
    try {
      return this.#conclude(turn, await turn.run(async () => await this.takeTurn(turn)));
    } finally {
      turn.release();
      this.#turn = undefined;
    }
  }

  /** Ends in good order what `start` made. Idempotent. A subclass that has more calls `super.stop()` at last. */
  stop(): Promise<void> {
    this.#state = "finished";
    return Promise.resolve();
  }

  /** Ends everything at once and waits until no process is left. Idempotent. */
  kill(): Promise<void> {
    this.killSync();
    return Promise.resolve();
  }

  /**
   * Ends everything at once. Synchronous, at any time, from a signal, exit or timer handler; twice
   * does no harm; must not throw. A subclass kills what it started and calls `super.killSync()`.
   */
  killSync(): void {
    this.#turn?.kill("kill");
  }

  /** After a failed turn: forgets its record and takes the iteration back, once. Else nothing. */
  discardPendingTurn(): void {
    if (this.#failed || this.#pendingTurn?.crashed === true) this.#iteration = Math.max(0, this.#iteration - 1);
    this.#failed = false;
    this.#pendingTurn = undefined;
  }

  /**
   * The agent's own work. It emits what happens, asks `turn.shouldStop()` at every safe boundary
   * and, when that answers, calls {@link Agent.markStopped} and returns. It obeys `turn.signal`.
   * What it throws is a crash, unless the error bears a `failure` or a failure's `code`.
   */
  protected abstract takeTurn(turn: AgentTurn): Promise<TurnAnswer | undefined | void>;

  /** Builds the record of the turn. A subclass may add to it. */
  protected buildRecord(collector: EventCollector, end: TurnEnd): TurnRecord {
    return collector.record({ ...end, atMs: this.#clock.monotonicMs(), environment: this.#environmentInfo() });
  }

  /** What cannot be told of the environment must not cost the turn. */
  #environmentInfo(): JsonObject | undefined {
    try {
      return this.getEnvironmentInfo();
    } catch {
      return undefined;
    }
  }

  /** The class's ability, unless it hangs on the instance. */
  protected get announcesCalls(): boolean {
    return this.#class.announcesCalls;
  }

  /** Where the agent works; only after `start`. */
  protected get workingDirectory(): string {
    return this.#options.workingDirectory;
  }

  /** The environment of the agent's programs: what `start` allowed, PATH, PLUGIN_TOOLS_DIR and the mark. */
  protected get environment(): Readonly<Record<string, string>> {
    const { env, envPathPrepend = [], pluginToolsDir } = this.#options;
    const path = [...envPathPrepend, ...(env["PATH"] === undefined ? [] : [env["PATH"]])].join(delimiter);
    return {
      ...(pluginToolsDir === undefined ? {} : { PLUGIN_TOOLS_DIR: pluginToolsDir }),
      ...env,
      ...(path === "" ? {} : { PATH: path }),
      ...(this.init.mark === "" ? {} : { TURNQ_TURN: this.init.mark }),
    };
  }

  protected beginTurn(): void {
    this.#state = "working";
    this.#failed = false;
    this.#pendingTurn = undefined;
    this.#iteration += 1;
  }

  /** To be called after the record was built. */
  protected endTurnOk(): void {
    this.#state = "idle";
    this.#failed = false;
    this.#pendingTurn = undefined;
  }

  /** The agent ends before its answer is whole; the reason is what `shouldStop` answered unless given. */
  protected markStopped(reason?: StopReason): void {
    this.#turn?.markStopped(reason ?? this.#turn.told ?? "criterion");
  }

  protected throwTimeout(finalize: Finalize, timeoutMs: number, options: { readonly cause?: unknown } = {}): never {
    const error = new TurnTimeoutError(timeoutMs, { iteration: this.#iteration, cause: options.cause });
    this.#park(finalize, {
      status: "timeout",
      crashed: true,
      crashReason: crashReason(error.message),
      failure: failure("timeout", error.message, { cause: options.cause }),
      record: recordOf(options.cause),
    });
    throw error;
  }

  protected throwCrash(finalize: Finalize, message: string, options: { readonly cause?: unknown } = {}): never {
    const { cause } = options;
    const said = normalizeThrown(cause);
    this.#park(finalize, {
      status: "crashed",
      crashed: true,
      crashReason: crashReason(message),
      failure: said.code === "agent_crash" ? failure("agent_crash", message, { cause: cause ?? undefined }) : said,
      record: recordOf(cause),
    });
    throw new AgentCrashError(message, { cause });
  }

  /** The turn was ended from outside, which is no fault of the agent: gives the record and does not throw. */
  protected finalizeExternalCancel(finalize: Finalize): TurnRecord {
    this.#failed = true;
    this.#state = "idle";
    return finalize({
      status: "cancelled",
      crashed: true,
      crashReason: "turn cancelled",
      failure: failure("cancelled", "turn cancelled"),
      stopReason: "cancelled",
    });
  }

  /** Parks what there is of the turn, if it can be built; never throws, so that it hides no first error. */
  protected capturePartialTurn(collector: EventCollector): void {
    try {
      this.#pendingTurn ??= this.buildRecord(collector, { status: "crashed", crashed: true });
    } catch {
      this.#pendingTurn = undefined;
    }
  }

  get #class(): typeof Agent {
    return this.constructor as typeof Agent;
  }

  get #options(): StartOptions {
    if (this.#started === undefined) throw new TurnqError("not_started", `agent ${this.name} has not been started`);
    return this.#started;
  }

  #openTurn(input: Input, options: CommunicateOptions): OngoingTurn {
    const clock = this.#clock;
    const maxChars = this.init.limits.maxTranscriptChars;
    const budget = new TranscriptBudget(maxChars);
    const collector = new EventCollector({
      agent: this.name,
      attempt: this.init.attempt,
      iteration: this.#iteration,
      input,
      startedAt: clock.now(),
      startedMs: clock.monotonicMs(),
      announcesCalls: this.announcesCalls,
      maxChars,
      cuts: budget,
    });
    return new OngoingTurn({
      ...options,
      agent: this.name,
      iteration: this.#iteration,
      input,
      history: options.history ?? [],
      metadata: this.init.metadata,
      collector,
      budget,
      clock,
      buildRecord: (end) => this.buildRecord(collector, end),
      killSync: () => this.killSync(),
    });
  }

  #conclude(turn: OngoingTurn, outcome: Outcome<TurnAnswer | undefined | void>): TurnRecord {
    switch (outcome.kind) {
      case "killed":
        if (outcome.cause === "timeout")
          return this.throwTimeout(turn.finalize, turn.timeoutMs ?? this.init.limits.timeoutMs, {
            cause: outcome.thrown,
          });
        if (outcome.cause === "cancel") return this.finalizeExternalCancel(turn.finalize);
        return this.throwCrash(turn.finalize, "the agent was killed", { cause: outcome.thrown });
      case "threw":
        return this.#concludeThrown(turn, outcome.thrown);
      case "answered":
        if (turn.overdue) return this.throwTimeout(turn.finalize, turn.timeoutMs ?? this.init.limits.timeoutMs);
        return this.#concludeAnswer(turn, cleanAnswer(outcome.answer));
    }
  }

  #concludeThrown(turn: OngoingTurn, thrown: unknown): TurnRecord {
    if (turn.stopped !== undefined) return this.#close(turn, endOfStop(turn.stopped));
    const said = normalizeThrown(thrown);
    if (said.code === "timeout")
      return this.throwTimeout(turn.finalize, timeoutOf(thrown) ?? this.init.limits.timeoutMs, { cause: thrown });
    if (isCrash(said)) return this.throwCrash(turn.finalize, messageOf(thrown), { cause: thrown });
    return this.#close(turn, { status: "failed", crashed: false, failure: said });
  }

  #concludeAnswer(turn: OngoingTurn, answer: TurnAnswer): TurnRecord {
    const { output, messages, record } = answer;
    if (output !== undefined && record === undefined) turn.speakOutput(output);
    const given = { output, messages, record };
    if (answer.failure !== undefined) {
      return this.#close(turn, { status: "failed", crashed: false, failure: agentFailure(answer.failure), ...given });
    }
    if (turn.stopped !== undefined) return this.#close(turn, { ...endOfStop(turn.stopped), ...given });
    const leftOver = record === undefined ? this.#leftOver(turn, output) : undefined;
    if (leftOver !== undefined) return this.throwCrash(turn.finalize, leftOver);
    return this.#close(turn, {
      status: record?.status ?? "completed",
      crashed: record?.crashed ?? false,
      failure: record?.failure,
      ...given,
    });
  }

  /** Why an end that looks like success is none: success must not be what is left over. */
  #leftOver(turn: OngoingTurn, output: string | undefined): string | undefined {
    if (output === undefined && turn.collector.isEmpty)
      return "the agent ended without an answer and without any event";
    const { steps } = turn.collector.counts;
    if (!this.#class.reportsTokens || steps === 0) return undefined;
    return (totalTokens(turn.collector.usage(false)) ?? 0) > 0 ? undefined : "a step finished without any tokens";
  }

  #close(turn: OngoingTurn, end: TurnEnd): TurnRecord {
    let record: TurnRecord;
    try {
      record = turn.finalize(end);
    } catch (thrown) {
      return this.throwCrash(turn.finalize, `the record could not be built: ${messageOf(thrown)}`, { cause: thrown });
    }
    if (endedWell(record.status)) this.endTurnOk();
    else {
      this.#failed = true;
      this.#state = record.status === "cancelled" || record.status === "interrupted" ? "idle" : "error";
    }
    return record;
  }

  #park(finalize: Finalize, end: TurnEnd): void {
    this.#failed = true;
    this.#state = "error";
    try {
      this.#pendingTurn = finalize(end);
    } catch {
      this.#pendingTurn = undefined;
    }
  }
}

function recordOf(thrown: unknown): TurnRecord | undefined {
  return thrown instanceof AgentCrashError ? thrown.record : undefined;
}

function timeoutOf(thrown: unknown): number | undefined {
  return thrown instanceof TurnTimeoutError ? thrown.timeoutMs : undefined;
}
