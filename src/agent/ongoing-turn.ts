import { setMaxListeners } from "node:events";
import { abortError } from "../domain/workflow-result.ts";
import { isTurnqError } from "../domain/error.ts";
import { NO_USAGE, UNKNOWN_USAGE, type Usage } from "../domain/usage.ts";
import type { Failure } from "../domain/failure.ts";
import type { JsonObject } from "../domain/json.ts";
import type { Message } from "../domain/message.ts";
import type { StopReason } from "../domain/stop-reason.ts";
import type { EventBody } from "../domain/turn-event.ts";
import type { AttemptStatus, TurnRecord } from "../domain/turn-record.ts";
import type { Input } from "../domain/turn-request.ts";
import type { EventStored } from "./agent-init.ts";
import { TIME_OVER, afterMs, within, type Clock } from "./deadline.ts";
import type { EventCollector } from "./event-collector.ts";
import { cleanDetails, type StepDetails } from "./open-step.ts";
import { EventGate } from "./event-gate.ts";
import type { TranscriptBudget } from "./transcript-budget.ts";
import { TurnTimeoutError } from "./turn-errors.ts";

/** How a turn ended, as the agent knows it. */
export interface TurnEnd {
  readonly status: AttemptStatus;
  readonly crashed: boolean;
  readonly crashReason?: string | undefined;
  readonly failure?: Failure | undefined;
  readonly stopReason?: StopReason | undefined;
  /** The answer; by default the text of the last assistant message with content. */
  readonly output?: string | undefined;
  /** This turn's messages, where the agent knows better than its events. */
  readonly messages?: readonly Message[] | undefined;
  /** A record that another process has built: taken as it is but for the end given here. */
  readonly record?: TurnRecord | undefined;
}

/** Closes the turn's events and builds its record. Idempotent: the first call wins. May throw when the record cannot be built. */
export type Finalize = (end: TurnEnd) => TurnRecord;

/** One call of `communicate`, as an agent's own code sees it. */
export interface AgentTurn {
  readonly input: Input;
  /** The conversation before this turn. */
  readonly history: readonly Message[];
  /** The request's metadata, for an agent that asks for it. */
  readonly metadata?: JsonObject | undefined;
  /** Aborted at the kill: deadline, cancel, `killSync`. The reason is an Error. */
  readonly signal: AbortSignal;
  /** The hard deadline in ms from the start, if there is one. */
  readonly timeoutMs: number | undefined;
  /** What is left until the hard deadline, in ms. */
  readonly leftMs: number | undefined;
  readonly maxSteps: number | undefined;
  /** Tells what happens. Never throws; what cannot be an event is dropped, and all after the end. */
  readonly emit: (event: EventBody) => void;
  /**
   * Announces a model call, and waits until that is stored: what the call costs is then not lost with the worker.
   * False when the call must not be made: the turn was ended, or is another worker's by now. Never rejects.
   */
  readonly announceCall: (model?: string, thread?: CallThread) => Promise<boolean>;
  /** To be asked at every safe boundary, after each message or tool result. Never throws; an answer stays. */
  readonly shouldStop: () => StopReason | undefined;
  /** Ends the open step with what no event carries: program, prints, memory … */
  readonly endStep: (success: boolean, details?: StepDetails) => void;
  /** True once something was left out of the transcript, which is bounded. */
  readonly transcriptCut: boolean;
  readonly collector: EventCollector;
}

/** The nested agent that makes a call; the agent itself unless given. */
export interface CallThread {
  readonly threadId?: string | undefined;
  readonly parentThreadId?: string | undefined;
}

/** Why a turn was ended from outside. */
export type KillCause = "timeout" | "cancel" | "kill";

/** What came of the agent's work. */
export type Outcome<T> =
  | { readonly kind: "answered"; readonly answer: T }
  | { readonly kind: "threw"; readonly thrown: unknown }
  | { readonly kind: "killed"; readonly cause: KillCause; readonly thrown: unknown };

/** How long, after a kill, the agent's own code is waited for so that its last words are kept, in ms. */
export const KILL_SETTLE_MS = 400;

export interface OngoingTurnOptions {
  readonly agent: string;
  readonly iteration: number;
  readonly input: Input;
  readonly history: readonly Message[];
  readonly metadata?: JsonObject | undefined;
  readonly collector: EventCollector;
  readonly clock: Clock;
  /** Bounds what goes into the collector. */
  readonly budget: TranscriptBudget;
  readonly timeoutMs?: number | undefined;
  readonly maxSteps?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly onEvent?: ((event: EventBody) => EventStored | void) | undefined;
  readonly shouldStop?: (() => StopReason | undefined) | undefined;
  readonly buildRecord: (end: TurnEnd) => TurnRecord;
  /** Ends the agent's processes; called once at the deadline or when the signal is aborted. */
  readonly killSync: () => void;
}

/** The state of one turn inside an agent: its events, its deadline, what it was told, how it ended. */
export class OngoingTurn implements AgentTurn {
  readonly input: Input;
  readonly history: readonly Message[];
  readonly metadata: JsonObject | undefined;
  readonly timeoutMs: number | undefined;
  readonly maxSteps: number | undefined;
  readonly collector: EventCollector;
  readonly #options: OngoingTurnOptions;
  readonly #gate: EventGate;
  readonly #budget: TranscriptBudget;
  #controller: AbortController | undefined;
  readonly #startedMs: number;
  readonly #onAbort = (): void => this.#abortedFromOutside();
  #callOffDeadline: () => void = () => undefined;
  #killed: KillCause | undefined;
  #wakeKilled: () => void = () => undefined;
  #stored: EventStored = undefined;
  #told: StopReason | undefined;
  #stopped: StopReason | undefined;
  #record: TurnRecord | undefined;

  constructor(options: OngoingTurnOptions) {
    this.#options = options;
    this.input = options.input;
    this.history = options.history;
    this.metadata = options.metadata;
    this.timeoutMs = options.timeoutMs;
    this.maxSteps = options.maxSteps;
    this.collector = options.collector;
    this.#startedMs = options.clock.monotonicMs();
    this.#budget = options.budget;
    this.#gate = new EventGate(
      options.agent,
      (event) => {
        const fitting = this.#budget.fit(event);
        if (fitting === undefined) return this.collector.leaveOut(event, options.clock.now());
        this.collector.add(fitting, options.clock.now());
        this.#stored = options.onEvent?.(fitting) ?? undefined;
      },
      (usage) => void options.onEvent?.({ type: "usage", usage }),
    );
  }

  /** Made when it is asked for: most turns of simple agents never do. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      // Calls that are made at once may wait on it by the dozen; each takes its listener away.
      setMaxListeners(0, this.#controller.signal);
      if (this.#killed !== undefined) this.#controller.abort(this.#killReason(this.#killed));
    }
    return this.#controller.signal;
  }

  /** The reason why the agent said that it stopped early. */
  get stopped(): StopReason | undefined {
    return this.#stopped;
  }

  /** What `shouldStop` has answered. */
  get told(): StopReason | undefined {
    return this.#told;
  }

  get transcriptCut(): boolean {
    return this.#budget.cut;
  }

  get leftMs(): number | undefined {
    if (this.timeoutMs === undefined) return undefined;
    return Math.max(0, this.timeoutMs - (this.#options.clock.monotonicMs() - this.#startedMs));
  }

  /** True when the deadline is behind us, also when a blocked loop kept its timer from firing. */
  get overdue(): boolean {
    return this.leftMs === 0;
  }

  readonly emit = (event: EventBody): void => this.#gate.emit(event);

  readonly announceCall = async (model?: string, { threadId, parentThreadId }: CallThread = {}): Promise<boolean> => {
    this.#stored = undefined;
    this.emit({
      type: "call_start",
      ...(model === undefined ? {} : { model }),
      ...(threadId === undefined ? {} : { threadId }),
      ...(parentThreadId === undefined ? {} : { parentThreadId }),
    });
    const stored = this.#stored as EventStored;
    if (stored === undefined) return this.#killed === undefined;
    const { signal } = this;
    if (signal.aborted) return false;
    let onAbort = (): void => undefined;
    const killed = new Promise<false>((resolve) => {
      onAbort = () => resolve(false);
      signal.addEventListener("abort", onAbort, { once: true });
    });
    try {
      return await Promise.race([stored, killed]);
    } finally {
      // A turn may make thousands of calls on one signal.
      signal.removeEventListener("abort", onAbort);
    }
  };

  readonly shouldStop = (): StopReason | undefined => {
    this.#told ??= this.#killed === undefined ? this.#ask() : this.#killed === "timeout" ? "deadline" : "cancelled";
    return this.#told;
  };

  readonly endStep = (success: boolean, details?: StepDetails): void => {
    if (details !== undefined) {
      const clean = cleanDetails(details);
      if (this.#budget.fits(clean)) this.collector.describeStep(clean);
    }
    this.#gate.emit({ type: "step_end", number: this.#gate.stepNumber, success });
  };

  /** The agent stops before its answer is whole. */
  markStopped(reason: StopReason): void {
    this.#stopped ??= reason;
  }

  /** Emits `agent_start` and runs the agent's work until it ends or is killed; never rejects. */
  async run<T>(work: () => Promise<T>): Promise<Outcome<T>> {
    this.#gate.open();
    const killed = new Promise<void>((resolve) => {
      this.#wakeKilled = resolve;
    });
    this.#watch();
    if (this.#killed !== undefined) return { kind: "killed", cause: this.#killed, thrown: undefined };
    const settled = settle(work);
    const first = await Promise.race([settled, killed]);
    if (this.#killed === undefined && first !== undefined) return first;
    const last = await within(this.#options.clock, KILL_SETTLE_MS, settled);
    const thrown = last !== TIME_OVER && last.kind === "threw" ? last.thrown : undefined;
    return { kind: "killed", cause: this.#killed ?? "kill", thrown };
  }

  /** Ends the turn from outside; the first cause wins. Never throws. */
  kill(cause: KillCause): void {
    if (this.#killed !== undefined || this.#record !== undefined) return;
    this.#killed = cause;
    try {
      this.#options.killSync();
    } catch {
      // what cannot be killed here is swept by whoever owns the processes
    }
    this.#controller?.abort(this.#killReason(cause));
    this.#wakeKilled();
  }

  readonly finalize: Finalize = (end) => {
    if (this.#record !== undefined) return this.#record;
    this.#gate.closeOpen(end.status);
    try {
      this.#record = this.#options.buildRecord(end);
      return this.#record;
    } finally {
      const figures = this.#record ?? { output: end.output ?? "", usage: this.#partialUsage() };
      this.#gate.end({
        status: this.#record?.status ?? end.status,
        crashed: this.#record?.crashed ?? end.crashed,
        output: figures.output,
        usage: figures.usage,
        ...(end.stopReason === undefined ? {} : { stopReason: end.stopReason }),
        ...(end.failure === undefined ? {} : { failure: end.failure }),
      });
    }
  };

  /** Adds what a plain answer lacks in the events, so that the events tell the whole answer. */
  speakOutput(output: string): void {
    const said = this.collector.lastText();
    if (output === said || output === "") return;
    if (said !== "" && output.startsWith(said) && this.collector.endsWithText()) {
      this.emit({ type: "text_delta", text: output.slice(said.length) });
      return;
    }
    if (this.collector.endsWithText()) this.endStep(true);
    this.emit({ type: "text_delta", text: output });
  }

  /** Lets go of timer and listener. */
  release(): void {
    this.#callOffDeadline();
    this.#options.signal?.removeEventListener("abort", this.#onAbort);
  }

  #watch(): void {
    const { signal, clock } = this.#options;
    if (signal !== undefined) {
      signal.addEventListener("abort", this.#onAbort, { once: true });
      if (signal.aborted) this.#abortedFromOutside();
    }
    if (this.timeoutMs !== undefined && this.#killed === undefined) {
      this.#callOffDeadline = afterMs(clock, this.timeoutMs, () => this.kill("timeout"));
    }
  }

  #abortedFromOutside(): void {
    const late = isTurnqError(this.#options.signal?.reason, "turn_timeout");
    this.kill(late ? "timeout" : "cancel");
  }

  #killReason(cause: KillCause): Error {
    const { signal, timeoutMs, iteration } = this.#options;
    if (signal?.aborted === true) return abortError(signal);
    if (cause === "timeout") return new TurnTimeoutError(timeoutMs ?? 0, { iteration });
    return new DOMException("the agent was killed", "AbortError");
  }

  #ask(): StopReason | undefined {
    if (this.maxSteps !== undefined && this.#gate.stepsEnded >= this.maxSteps) return "max_steps";
    try {
      return this.#options.shouldStop?.();
    } catch {
      return undefined; // never a false stop
    }
  }

  #partialUsage(): Usage {
    try {
      return this.collector.usage(true);
    } catch {
      return this.#gate.stepNumber === 0 ? NO_USAGE : UNKNOWN_USAGE;
    }
  }
}

async function settle<T>(work: () => Promise<T>): Promise<Outcome<T>> {
  try {
    return { kind: "answered", answer: await work() };
  } catch (thrown) {
    return { kind: "threw", thrown };
  }
}
