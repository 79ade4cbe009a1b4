import { AgentCrashError, TurnTimeoutError } from "../../agent/turn-errors.ts";
import { failure } from "../../domain/failure.ts";
import type { EventBody } from "../../domain/turn-event.ts";
import { TurnRecord } from "../../domain/turn-record.ts";
import { tailText } from "../../domain/text.ts";
import { OutputTail } from "../../process/bounded-output.ts";
import { maskSecrets } from "../../process/mask.ts";
import { ProcessFailure, endText, outOfMemory } from "../../process/process-failure.ts";
import type { ProcessEnd, SupervisedProcess } from "../../process/supervised-process.ts";
import type { StopReason } from "../../domain/stop-reason.ts";
import { heapFull, isHeapDeath } from "./runner-heap.ts";
import {
  RunnerReport,
  type LoadOrder,
  type ModuleFacts,
  type RunnerOrder,
  type TurnEnded,
  type TurnOrder,
} from "./runner-message.ts";

/** What a turn in a runner came to. */
export interface RunnerAnswer {
  readonly record: TurnRecord | undefined;
  readonly stopReason: StopReason | undefined;
}

export interface RunnerTurn {
  readonly order: Omit<TurnOrder, "type" | "id">;
  /** The whole deadline of the turn, of which the order has what is left; for what is said of a timeout. */
  readonly timeoutMs: number | undefined;
  /** Epoch ms. */
  readonly deadlineAt: number | undefined;
  readonly onEvent: (event: EventBody) => void;
}

/** How long an agent's `stop` may take before its runner is given up. */
const REST_WAIT_MS = 1000;
const STDERR_IN_MESSAGE = 2000;
const BYTES_PER_MIB = 1024 * 1024;

export interface RunnerSettings {
  /** Its environment, whose values are kept out of messages. */
  readonly env: Readonly<Record<string, string>>;
  readonly memoryMb: number;
}

/** The worker's end of one runner. It takes one turn at a time. */
export class Runner {
  readonly facts: Promise<ModuleFacts>;
  readonly #process: SupervisedProcess;
  readonly #env: Readonly<Record<string, string>>;
  readonly #stderr = new OutputTail();
  #death: Error | undefined;
  /** It died, and all that it said before is known. */
  #diedHeardOut = false;
  #loaded = false;
  /** It has said that it has the current turn. */
  #taken = false;
  #onDeath: (error: Error) => void = () => undefined;
  #listener: (report: RunnerReport) => void = () => undefined;
  #nextId = 1;
  #current = 0;
  #usable = true;
  /** MiB that its process and all that it starts may hold. */
  readonly memoryMb: number;
  #rssLoaded = 0;
  /** The agent of the current turn was stopped. */
  #rested = false;
  #onRest: () => void = () => undefined;

  constructor(process: SupervisedProcess, load: LoadOrder, settings: RunnerSettings) {
    this.#process = process;
    this.#env = settings.env;
    this.memoryMb = settings.memoryMb;
    process.stdout.resume();
    process.stderr.on("data", (chunk: Buffer) => this.#stderr.push(chunk));
    process.onMessage((message) => {
      const report = RunnerReport.safeParse(message);
      if (report.success) this.#listener(report.data);
    });
    void process.ended.then((end) => {
      this.#usable = false;
      this.#death = this.#deathOf(end);
      // A module that does not fit into its memory never will.
      const doesNotFit = !this.#loaded && isOutOfMemory(this.#death);
      this.#diedHeardOut = end.heardOut && end.problem === undefined && !doesNotFit;
      this.#onDeath(this.#death);
    });
    this.facts = this.#load(load);
    this.facts.catch(() => {
      this.#usable = false;
    });
  }

  /** False after a death, a kill or a turn that threw. */
  get usable(): boolean {
    return this.#usable && !this.#process.exited;
  }

  /** Its module is loaded. */
  get loaded(): boolean {
    return this.#loaded;
  }

  /** It died before its turn was handed over: nothing of the turn has run, and another runner may take it. */
  get diedBeforeTurn(): boolean {
    return this.#diedHeardOut && !this.#taken;
  }

  get ended(): Promise<unknown> {
    return this.#process.ended;
  }

  /** Whether it keeps the worker from exiting. */
  hold(on: boolean): void {
    this.#process.hold(on);
  }

  /**
   * Takes a turn. Resolves when it has ended and nothing that it started is alive.
   * Throws what the agent threw, or the death of the runner.
   */
  async take(turn: RunnerTurn): Promise<RunnerAnswer> {
    const id = this.#nextId++;
    this.#current = id;
    const watch = this.#process.watchTurn({
      mark: turn.order.init.mark,
      deadlineAt: turn.deadlineAt,
      memoryMb: this.memoryMb,
    });
    try {
      const ended = await this.#converse(id, turn);
      if (ended.thrown !== undefined) this.#usable = false;
      else await this.#untilRest();
      return answerOf(ended, turn.timeoutMs);
    } finally {
      this.#current = 0;
      this.#listener = () => undefined;
      this.#onDeath = () => undefined;
      this.#onRest = () => undefined;
      await watch.done();
    }
  }

  /** Answers the first announced call that has no answer yet. */
  tellStored(mayCall: boolean): void {
    if (this.#current !== 0) this.#send({ type: "stored", id: this.#current, mayCall });
  }

  tellStop(reason: StopReason): void {
    if (this.#current !== 0) this.#send({ type: "stop", id: this.#current, reason });
  }

  kill(): void {
    this.#usable = false;
    this.#process.kill();
  }

  killSync(): void {
    this.#usable = false;
    this.#process.killSync();
  }

  #load(order: LoadOrder): Promise<ModuleFacts> {
    return this.#orDeath((resolve, reject) => {
      this.#listener = (report) => {
        if (report.type === "loaded") {
          this.#loaded = true;
          this.#rssLoaded = report.rss;
          resolve(report.facts);
        }
        if (report.type === "not_loaded")
          reject(new ProcessFailure("config", failure("config", this.#mask(report.message))));
      };
      this.#send(order);
    });
  }

  #converse(id: number, turn: RunnerTurn): Promise<TurnEnded> {
    this.#rested = false;
    this.#taken = false;
    return this.#orDeath((resolve) => {
      this.#listener = (report) => {
        if (report.type === "taken" && report.id === id) this.#taken = true;
        if (report.type === "event" && report.id === id) turn.onEvent(report.event as EventBody);
        if (report.type === "ended" && report.id === id) resolve(report);
        if (report.type !== "idle" || report.id !== id) return;
        this.#rested = true;
        if (!report.clean || this.#keepsTooMuch(report.rss)) this.#usable = false;
        this.#onRest();
      };
      this.#send({ type: "turn", id, ...turn.order });
    });
  }

  /** What turns have left in it is not to end the next one: half of what was free when it was loaded is enough. */
  #keepsTooMuch(rss: number): boolean {
    return rss - this.#rssLoaded > Math.max(0, this.memoryMb * BYTES_PER_MIB - this.#rssLoaded) / 2;
  }

  /** Waits for the agent's `stop`; a runner that does not come to rest is not used again. */
  async #untilRest(): Promise<void> {
    if (!this.#rested && this.#death === undefined) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, REST_WAIT_MS);
        this.#onRest = () => {
          clearTimeout(timer);
          resolve();
        };
        this.#onDeath = this.#onRest;
      });
    }
    if (!this.#rested) this.#usable = false;
  }

  /** A promise that also rejects when the runner dies; one at a time. */
  #orDeath<T>(work: (resolve: (value: T) => void, reject: (error: Error) => void) => void): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#onDeath = reject;
      if (this.#death === undefined) work(resolve, reject);
      else reject(this.#death);
    });
  }

  #send(order: RunnerOrder): void {
    this.#process.send(order);
  }

  #deathOf(end: ProcessEnd): Error {
    if (end.problem !== undefined) return end.problem;
    if (end.overMemoryMb !== undefined) return outOfMemory(end.overMemoryMb, this.memoryMb);
    const stderr = this.#mask(this.#stderr.text()).trim();
    if (isHeapDeath(end, stderr)) return heapFull(this.memoryMb);
    const when = this.#taken
      ? "in the middle of the turn"
      : this.#loaded
        ? "between turns"
        : "while its module was loaded";
    const what = `the agent's process ${endText(end)} ${when}`;
    return new AgentCrashError(stderr === "" ? what : `${what}: ${tailText(stderr, STDERR_IN_MESSAGE)}`);
  }

  #mask(text: string): string {
    return maskSecrets(text, this.#env);
  }
}

function answerOf(ended: TurnEnded, timeoutMs: number | undefined): RunnerAnswer {
  const record = TurnRecord.safeParse(ended.record).data;
  const { thrown, stopReason } = ended;
  if (thrown === undefined) return { record, stopReason };
  switch (thrown.failure.code) {
    case "timeout":
      throw new TurnTimeoutError(timeoutMs ?? record?.durationMs ?? 0);
    case "agent_crash":
      throw new AgentCrashError(thrown.message, { record });
    default:
      throw new ProcessFailure("agent_crash", thrown.failure);
  }
}

function isOutOfMemory(death: Error): boolean {
  return death instanceof ProcessFailure && death.failure.code === "out_of_memory";
}
