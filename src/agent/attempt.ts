import { messageOf } from "../domain/error.ts";
import { toJson } from "../domain/json.ts";
import type { EventBody } from "../domain/turn-event.ts";
import type { Message } from "../domain/message.ts";
import type { StopReason } from "../domain/stop-reason.ts";
import { TurnRecord, crashReason } from "../domain/turn-record.ts";
import type { StoredRequest } from "../domain/turn-request.ts";
import type { Usage } from "../domain/usage.ts";
import type { Agent, StartOptions } from "./agent.ts";
import type { EventStored } from "./agent-init.ts";
import type { AgentSpec, AttemptInit } from "./agent-spec.ts";
import { TIME_OVER, afterMs, systemClock, within, type Clock } from "./deadline.ts";
import { EventCollector } from "./event-collector.ts";
import { EventGate } from "./event-gate.ts";
import { TranscriptBudget } from "./transcript-budget.ts";
import { TurnTimeoutError, isCrash, normalizeThrown } from "./turn-errors.ts";
import { TurnMonitor, type Spent } from "./turn-monitor.ts";
import { verdictOf, type Ending, type KillReason, type StopRequest } from "./verdict.ts";

/** One attempt to be run. */
export interface AttemptOrder {
  readonly spec: AgentSpec;
  readonly request: StoredRequest;
  readonly attempt: number;
  readonly iteration: number;
  readonly generation: number;
  readonly history: readonly Message[];
  /** What earlier attempts of this generation used, for the limits. */
  readonly before: Spent;
  /** The value of TURNQ_TURN for every process of this attempt. */
  readonly mark: string;
  readonly start: StartOptions;
  /** Gets a stream in which everything is closed. Must not throw; what it throws is ignored. */
  readonly onEvent: (event: EventBody) => EventStored | void;
  /** Gets usage that is told when the attempt is over, cumulative as before it. Must not throw. */
  readonly onLateUsage?: ((usage: Usage) => void) | undefined;
  /** Called once when the attempt is killed. Must not throw. */
  readonly onKill?: ((reason: KillReason) => void) | undefined;
  /** The machine's clock unless given. */
  readonly clock?: Clock | undefined;
}

export interface AttemptOutcome {
  readonly record: TurnRecord;
  readonly stopReason?: StopReason | undefined;
}

export interface RunningAttempt {
  /** Never rejects. Settles within `timeoutMs` and a bound of seconds, whatever the agent does. */
  readonly done: Promise<AttemptOutcome>;
  /** Asks for a cooperative stop; the first reason wins. After `limits.graceMs` the attempt is killed. */
  readonly stop: (reason: StopRequest) => void;
  /** Kills at once; the first reason wins. Never throws. */
  readonly kill: (reason: StopRequest) => void;
}

/** How long after a kill the agent's `communicate` is waited for, in ms. */
const SETTLE_MS = 1_000;
/** How long `stop` and `kill` of an agent may take each, in ms. */
const DISPOSE_MS = 2_000;

/**
 * Runs one attempt: makes the agent, starts it, lets it take the turn under its deadline and ends
 * it. Whatever the agent does or leaves undone, there is one record and one closed stream of events.
 */
export function runAttempt(order: AttemptOrder): RunningAttempt {
  const attempt = new Attempt(order);
  return {
    done: attempt.run(),
    stop: (reason) => attempt.stop(reason),
    kill: (reason) => attempt.kill(reason),
  };
}

type Settled = { readonly record: unknown } | { readonly thrown: unknown };

class Attempt {
  readonly #order: AttemptOrder;
  readonly #clock: Clock;
  readonly #startedMs: number;
  readonly #monitor: TurnMonitor;
  readonly #collector: EventCollector;
  readonly #gate: EventGate;
  readonly #controller = new AbortController();
  readonly #killedOnce: Promise<void>;
  #wakeKilled: () => void = () => undefined;
  #callOffDeadline: () => void = () => undefined;
  #callOffGrace: () => void = () => undefined;
  #callOffIdle: () => void = () => undefined;
  #lastEventMs: number;
  /** Events that the agent waits for: while one is not stored it is not its own silence. */
  #storing = 0;
  /** The last answer of `onEvent`: whoever announces a call waits for it. */
  #stored: EventStored = undefined;
  #agent: Agent | undefined;
  #requested: StopRequest | undefined;
  #killed: KillReason | undefined;
  #over = false;

  constructor(order: AttemptOrder) {
    const clock = order.clock ?? systemClock;
    const { spec, request, attempt, iteration } = order;
    this.#order = order;
    this.#clock = clock;
    this.#startedMs = clock.monotonicMs();
    this.#lastEventMs = this.#startedMs;
    this.#monitor = new TurnMonitor({ limits: request.limits, before: order.before, clock });
    const budget = new TranscriptBudget(request.limits.maxTranscriptChars);
    this.#collector = new EventCollector({
      agent: spec.name,
      attempt,
      iteration,
      input: request.input,
      startedAt: clock.now(),
      startedMs: this.#startedMs,
      announcesCalls: spec.abilities.announcesCalls,
      maxChars: request.limits.maxTranscriptChars,
      cuts: budget,
    });
    this.#gate = new EventGate(
      spec.name,
      (event) => {
        this.#lastEventMs = clock.monotonicMs();
        // Limits count what happened, not what there was room for.
        this.#monitor.observe(event);
        const fitting = budget.fit(event);
        if (fitting === undefined) return this.#collector.leaveOut(event, clock.now());
        this.#collector.add(fitting, clock.now());
        this.#stored = order.onEvent(fitting) ?? undefined;
        if (this.#stored !== undefined) void this.#untilStored(this.#stored);
      },
      order.onLateUsage,
    );
    this.#killedOnce = new Promise((resolve) => {
      this.#wakeKilled = resolve;
    });
  }

  async run(): Promise<AttemptOutcome> {
    this.#callOffDeadline = afterMs(this.#clock, this.#order.request.limits.timeoutMs, () => this.#kill("timeout"));
    this.#watchSilence();
    const settled = await this.#drive();
    if (this.#overdue) this.#killed ??= "timeout";
    this.#over = true;
    this.#callOffDeadline();
    this.#callOffGrace();
    this.#callOffIdle();
    const outcome = this.#conclude(settled);
    await this.#dispose(settled);
    return outcome;
  }

  stop(reason: StopRequest): void {
    if (this.#over || this.#requested !== undefined) return;
    this.#requested = reason;
    this.#monitor.requestStop(reason);
    this.#callOffGrace = afterMs(this.#clock, this.#order.request.limits.graceMs, () => this.#kill(reason));
  }

  kill(reason: StopRequest): void {
    if (!this.#over) this.#requested ??= reason;
    this.#kill(this.#requested ?? reason);
  }

  async #untilStored(stored: Promise<boolean>): Promise<void> {
    this.#storing += 1;
    try {
      await stored;
    } catch {
      // the agent is told by the promise itself
    } finally {
      this.#storing -= 1;
      this.#lastEventMs = this.#clock.monotonicMs();
    }
  }

  /** Kills the attempt when the agent says nothing for `limits.idleMs`. */
  #watchSilence(): void {
    const { idleMs } = this.#order.request.limits;
    if (idleMs === undefined) return;
    const look = (): void => {
      const silentMs = this.#storing > 0 ? 0 : this.#clock.monotonicMs() - this.#lastEventMs;
      if (silentMs >= idleMs) this.#kill("idle");
      else this.#callOffIdle = afterMs(this.#clock, idleMs - silentMs, look);
    };
    this.#callOffIdle = afterMs(this.#clock, idleMs, look);
  }

  get #overdue(): boolean {
    return this.#clock.monotonicMs() - this.#startedMs >= this.#order.request.limits.timeoutMs;
  }

  #kill(reason: KillReason): void {
    if (this.#over) {
      this.#killSync();
      return;
    }
    if (this.#killed !== undefined) return;
    this.#killed = reason;
    this.#order.onKill?.(reason);
    const { timeoutMs } = this.#order.request.limits;
    const error =
      reason === "timeout"
        ? new TurnTimeoutError(timeoutMs, { iteration: this.#order.iteration })
        : new DOMException(`the turn was killed: ${reason}`, "AbortError");
    this.#controller.abort(error);
    this.#killSync();
    this.#wakeKilled();
  }

  #killSync(): void {
    try {
      this.#agent?.killSync();
    } catch {
      // what the agent cannot kill is swept by whoever owns the processes
    }
  }

  /** Runs the agent until it has settled, or for a bounded time after a kill; then undefined. */
  async #drive(): Promise<Settled | undefined> {
    const settled = this.#work();
    const first = await Promise.race([settled, this.#killedOnce]);
    if (first !== undefined) return first;
    const late = await within(this.#clock, SETTLE_MS, settled);
    return late === TIME_OVER ? undefined : late;
  }

  async #work(): Promise<Settled> {
    const { request, history, before, start, spec } = this.#order;
    const { timeoutMs, maxSteps } = request.limits;
    try {
      this.#agent = spec.create(this.#init());
      await this.#agent.start(start);
      const record: unknown = await this.#agent.communicate(request.input, {
        onEvent: (event) => {
          this.#gate.emit(event);
          return this.#stored;
        },
        timeoutMs,
        maxSteps: maxSteps === undefined ? undefined : Math.max(0, maxSteps - before.steps),
        shouldStop: this.#monitor.shouldStop,
        signal: this.#controller.signal,
        history,
      });
      return { record };
    } catch (thrown) {
      return { thrown };
    }
  }

  #init(): AttemptInit {
    const { spec, request, attempt, iteration, generation, mark } = this.#order;
    return {
      turn: request.id,
      attempt,
      iteration,
      limits: request.limits,
      options: request.options ?? {},
      idempotencyKey: `${request.id}~${generation}`,
      mark,
      clock: this.#clock,
      ...(spec.wantsMetadata === true && request.metadata !== undefined ? { metadata: request.metadata } : {}),
      ...(spec.wantsCostLogTags === true
        ? { costLogTags: { turn: request.id, attempt, batch: request.batch?.id, agent: spec.name } }
        : {}),
    };
  }

  #conclude(settled: Settled | undefined): AttemptOutcome {
    const threw = settled !== undefined && "thrown" in settled;
    const said = this.#saidRecord(settled);
    const ending = verdictOf({
      own: this.#ownEnding(settled, said),
      threw,
      killed: this.#killed,
      requested: this.#requested,
      limits: this.#order.request.limits,
    });
    this.#gate.closeOpen(ending.status);
    const { status, crashed, failure, stopReason } = ending;
    const record = this.#isWhole(said, ending)
      ? said
      : this.#collector.record({ ...ending, atMs: this.#clock.monotonicMs(), record: said });
    const { output, usage } = record;
    this.#gate.end({
      status,
      crashed,
      output,
      usage,
      ...(stopReason === undefined ? {} : { stopReason }),
      ...(failure === undefined ? {} : { failure }),
    });
    return { record, ...(stopReason === undefined ? {} : { stopReason }) };
  }

  /** True for a record that says all that there is to say, as it is. */
  #isWhole(said: TurnRecord | undefined, ending: Ending): said is TurnRecord {
    const { attempt, iteration, spec } = this.#order;
    if (said === undefined || !isBuilt(said) || said.agent !== spec.name) return false;
    if (said.attempt !== attempt || said.iteration !== iteration) return false;
    return said.status === ending.status && said.crashed === ending.crashed && said.failure === ending.failure;
  }

  /** The agent's own record of the attempt, if there is one that can be used. */
  #saidRecord(settled: Settled | undefined): TurnRecord | undefined {
    try {
      const said: unknown = settled !== undefined && "record" in settled ? settled.record : this.#agent?.pendingTurn;
      if (isBuilt(said)) return said;
      // What JSON cannot carry must not cost a second run.
      return TurnRecord.safeParse(said).data ?? TurnRecord.safeParse(toJson(said)).data;
    } catch {
      return undefined;
    }
  }

  #ownEnding(settled: Settled | undefined, said: TurnRecord | undefined): Ending {
    if (settled === undefined) return crash("the agent did not end");
    if (said === undefined) {
      return "thrown" in settled ? endingOfThrown(settled.thrown) : crash("communicate gave no valid record");
    }
    const { status, crashed, crashReason: reason, failure } = said;
    const ownReason = this.#gate.said?.stopReason ?? (status === "completed" ? undefined : this.#monitor.answer);
    return { status, crashed, crashReason: reason, failure, stopReason: ownReason };
  }

  /** Ends what the agent keeps; after this none of its processes is alive, as far as it can see to that. */
  async #dispose(settled: Settled | undefined): Promise<void> {
    const agent = this.#agent;
    if (agent === undefined) return;
    const well = this.#killed === undefined && settled !== undefined && "record" in settled;
    if (well && (await this.#bounded(() => agent.stop()))) return;
    try {
      agent.discardPendingTurn();
    } catch {
      // one instance per attempt: nobody asks it again
    }
    this.#killSync();
    await this.#bounded(() => agent.kill());
  }

  async #bounded(work: () => Promise<void>): Promise<boolean> {
    try {
      return (await within(this.#clock, DISPOSE_MS, Promise.resolve(work()))) !== TIME_OVER;
    } catch {
      return false;
    }
  }
}

function isBuilt(value: unknown): value is TurnRecord {
  return typeof value === "object" && value !== null && EventCollector.hasBuilt(value as TurnRecord);
}

function crash(text: string): Ending {
  return { status: "crashed", crashed: true, crashReason: text, failure: normalizeThrown(text) };
}

function endingOfThrown(thrown: unknown): Ending {
  const failure = normalizeThrown(thrown);
  if (failure.code === "timeout") {
    return {
      status: "timeout",
      crashed: true,
      crashReason: crashReason(failure.message),
      failure,
      stopReason: "deadline",
    };
  }
  if (!isCrash(failure)) return { status: "failed", crashed: false, failure };
  return { status: "crashed", crashed: true, crashReason: crashReason(messageOf(thrown)), failure };
}
