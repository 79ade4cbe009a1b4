import type { TurnAnswer } from "../../agent/agent.ts";
import type { AgentTurn } from "../../agent/ongoing-turn.ts";
import { AgentCrashError, TurnTimeoutError } from "../../agent/turn-errors.ts";
import type { Limits } from "../../domain/limits.ts";
import { failure } from "../../domain/failure.ts";
import type { JsonObject } from "../../domain/json.ts";
import type { StopReason } from "../../domain/stop-reason.ts";
import { TRANSCRIPT_MAX, tailText } from "../../domain/text.ts";
import { OutputHead, OutputTail } from "../../process/bounded-output.ts";
import { maskSecrets } from "../../process/mask.ts";
import { ProcessFailure, endText, outOfMemory } from "../../process/process-failure.ts";
import type { Processes } from "../../process/processes.ts";
import type { ProcessEnd, SupervisedProcess } from "../../process/supervised-process.ts";
import type { FinalLine } from "./protocol-line.ts";
import { ProtocolReader } from "./protocol-reader.ts";
import { climbStopLadder } from "./stop-ladder.ts";

export interface ProgramRunOptions {
  readonly processes: Pick<Processes, "spawn">;
  readonly command: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly mark: string;
  readonly output: "events" | "text";
  /** One line of JSON, for its stdin. */
  readonly request: string;
  /** Its stdin stays open, so that it can be told to stop. */
  readonly keepInputOpen: boolean;
  readonly limits: Pick<Limits, "timeoutMs" | "graceMs" | "maxTranscriptChars">;
  /** MiB that the program and all that it starts may hold together. */
  readonly memoryMb: number;
  readonly turn: AgentTurn;
  readonly markStopped: (reason: StopReason) => void;
}

/** What is worth knowing of a run beside its answer; for the record's environment. */
export type RunReport = JsonObject;

/** How long a program may take to exit after its `result` or `error`. */
const EXIT_GRACE_MS = 1000;
/** How much before the deadline a program is ended that has given its result: a result in time is no timeout. */
const DEADLINE_RESERVE_MS = 200;
const POLL_MS = 50;
/** So many characters more than are kept are handed on, so that the cut is seen; one of them may be half a pair. */
const MORE = 2;
/** How much of stderr a message holds, in characters. */
const STDERR_IN_MESSAGE = 2000;

/** One run of a program, from its start to its answer. */
export class ProgramRun {
  readonly #options: ProgramRunOptions;
  readonly #process: SupervisedProcess;
  readonly #reader: ProtocolReader;
  readonly #text: OutputHead;
  readonly #stderr = new OutputTail();
  readonly #startedMs = performance.now();
  #end: ProcessEnd | undefined;
  #stop: StopReason | undefined;
  #callOffLadder: () => void = () => undefined;
  #exitGrace: NodeJS.Timeout | undefined;
  #lingered = false;

  /** Starts the program. @throws ProcessFailure when it cannot be started */
  constructor(options: ProgramRunOptions) {
    this.#options = options;
    this.#text = new OutputHead((options.limits.maxTranscriptChars ?? TRANSCRIPT_MAX) + MORE);
    this.#reader = new ProtocolReader({
      emit: (event) => {
        options.turn.emit(event);
        this.#pollStop();
      },
      onFinal: () => this.#expectExit(),
    });
    this.#process = options.processes.spawn({
      command: options.command,
      cwd: options.cwd,
      env: options.env,
      mark: options.mark,
      deadlineAt: Date.now() + options.limits.timeoutMs,
      memoryMb: options.memoryMb,
      stdin: "pipe",
    });
    this.#process.stdout.on("data", (chunk: Buffer) => this.#take(chunk));
    this.#process.stderr.on("data", (chunk: Buffer) => this.#stderr.push(chunk));
    this.#process.write(`${options.request}\n`);
    if (!options.keepInputOpen) this.#process.endInput();
  }

  /** Settles when the program and all that it started have ended; never rejects. */
  get ended(): Promise<unknown> {
    return this.#process.ended;
  }

  killSync(): void {
    this.#process.killSync();
  }

  /** Waits for the end of the program and says what it came to. Throws what is a crash. */
  async finish(): Promise<TurnAnswer> {
    const poll = this.#options.keepInputOpen ? setInterval(() => this.#pollStop(), POLL_MS) : undefined;
    try {
      this.#end = await this.#process.ended;
    } finally {
      clearInterval(poll);
      clearTimeout(this.#exitGrace);
      this.#callOffLadder();
    }
    if (this.#end.problem !== undefined) throw this.#end.problem;
    const { overMemoryMb } = this.#end;
    // What it held after its result is no matter of the result.
    if (overMemoryMb !== undefined && this.#reader.final?.type !== "result")
      throw outOfMemory(overMemoryMb, this.#options.memoryMb);
    // The supervisor was first, since the worker's loop was blocked.
    if (this.#end.signal === "SIGKILL" && this.#leftMs() === 0)
      throw new TurnTimeoutError(this.#options.limits.timeoutMs);
    return this.#options.output === "text" ? this.#textAnswer(this.#end) : this.#eventsAnswer(this.#end);
  }

  report(): RunReport {
    const { ignored, skipped, log } = this.#reader;
    const end = this.#end;
    return {
      ...(end === undefined ? {} : { exitCode: end.code, ...(end.signal === null ? {} : { signal: end.signal }) }),
      ...this.#exitWarning(end),
      ...(ignored === 0 ? {} : { ignoredLines: ignored }),
      ...(skipped === 0 ? {} : { skippedLines: skipped }),
      ...(log === "" ? {} : { log: this.#mask(log) }),
    };
  }

  #exitWarning(end: ProcessEnd | undefined): RunReport {
    if (end === undefined || this.#reader.final?.type !== "result") return {};
    if (this.#lingered) return { warning: "the program did not exit after its result and was killed" };
    return end.code === 0 ? {} : { warning: `the program ${endText(end)} after its result` };
  }

  #take(chunk: Buffer): void {
    if (this.#options.output === "events") this.#reader.push(chunk);
    else this.#emitText(this.#text.take(chunk));
  }

  #emitText(text: string): void {
    if (text !== "") this.#options.turn.emit({ type: "text_delta", text });
  }

  /** Asks whether to stop; the first answer starts the ladder. */
  #pollStop(): void {
    if (!this.#options.keepInputOpen || this.#stop !== undefined || this.#reader.final !== undefined) return;
    this.#stop = this.#options.turn.shouldStop();
    if (this.#stop === undefined) return;
    const graceMs = Math.min(this.#options.limits.graceMs, this.#leftMs());
    this.#callOffLadder = climbStopLadder(this.#process, this.#stop, graceMs);
  }

  /** The turn's end has been said: the program has a short while to exit. */
  #expectExit(): void {
    this.#process.endInput();
    const graceMs = Math.min(EXIT_GRACE_MS, Math.max(0, this.#leftMs() - DEADLINE_RESERVE_MS));
    this.#exitGrace = setTimeout(() => {
      this.#lingered = true;
      this.#process.kill();
    }, graceMs);
  }

  #leftMs(): number {
    return Math.max(0, this.#options.limits.timeoutMs - (performance.now() - this.#startedMs));
  }

  #textAnswer(end: ProcessEnd): TurnAnswer {
    this.#emitText(this.#text.end());
    if (this.#stop !== undefined) {
      this.#options.markStopped(this.#stop);
      return {};
    }
    if (end.code !== 0) throw new AgentCrashError(this.#withStderr(`the program ${endText(end)}`));
    return this.#options.turn.collector.isEmpty ? { output: "" } : {};
  }

  #eventsAnswer(end: ProcessEnd): TurnAnswer {
    this.#reader.end();
    const { final } = this.#reader;
    if (this.#stop !== undefined && !(final?.type === "result" && final.complete === true))
      this.#options.markStopped(this.#stop);
    if (final?.type === "result") return { output: this.#outputOf(final) };
    if (final?.type === "error") return this.#errorAnswer(final);
    if (this.#stop !== undefined) return {};
    throw this.#withoutResult(end);
  }

  #outputOf(final: Extract<FinalLine, { type: "result" }>): string | undefined {
    const { output } = final;
    // What it has said is the answer, and where it said nothing an empty one.
    if (output === undefined || output === null) return this.#options.turn.collector.isEmpty ? "" : undefined;
    return typeof output === "string" ? output : JSON.stringify(output);
  }

  #errorAnswer(final: Extract<FinalLine, { type: "error" }>): TurnAnswer {
    const message =
      final.message === "" ? "the program reported an error without a message" : this.#mask(final.message);
    const { retryable, retryAfterMs } = final;
    const retryAt = retryAfterMs === undefined ? undefined : Date.now() + retryAfterMs;
    return { failure: failure(final.code ?? "agent_error", message, { retryable, retryAt }) };
  }

  /** The program ended and never said that it was done: no success, whatever its exit code is. */
  #withoutResult(end: ProcessEnd): Error {
    const { skipped, ignored, truncated } = this.#reader;
    const what = `the program ${endText(end)} without a result`;
    if (end.code === 0 && skipped > 0) {
      const text = `${what}: ${skipped} of its lines were over the limit of a line and skipped`;
      return new ProcessFailure("agent_crash", failure("output_too_large", text));
    }
    const notes = [
      ...(truncated ? ["its last line was cut off"] : []),
      ...(ignored > 0 ? [`${ignored} of its lines were not understood`] : []),
    ];
    return new AgentCrashError(this.#withStderr([what, ...notes].join("; ")));
  }

  #withStderr(text: string): string {
    const stderr = this.#mask(this.#stderr.text()).trim();
    return stderr === "" ? text : `${text}: ${tailText(stderr, STDERR_IN_MESSAGE)}`;
  }

  #mask(text: string): string {
    return maskSecrets(text, this.#options.env);
  }
}
