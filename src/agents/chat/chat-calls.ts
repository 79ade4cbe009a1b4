import { streamText } from "ai";
import type { AgentTurn } from "../../agent/ongoing-turn.ts";
import { messageOf } from "../../domain/error.ts";
import { failure } from "../../domain/failure.ts";
import { toJson } from "../../domain/json.ts";
import { addUsage, totalTokens, type Usage } from "../../domain/usage.ts";
import { answerParts, type AnswerPart } from "./answer-parts.ts";
import { callFailure } from "./call-failure.ts";
import { REFUSED_CALL, usageOfCall, withCost } from "./call-usage.ts";
import type { ChatConfig, Price } from "./chat-config.ts";
import { ProviderFailure } from "./provider-failure.ts";
import { Silence } from "./silence.ts";
import { SplitText } from "./split-text.ts";
import { forgetAnswer, heardAnswer } from "./transport.ts";

export type CallSettings = Parameters<typeof streamText>[0];

export interface ChatRequest {
  /** The model's name. */
  readonly model: string;
  readonly settings: CallSettings;
}

export interface CallsSetup {
  readonly chat: Pick<ChatConfig, "chunkTimeoutMs" | "reportsTokens" | "system">;
  /** Of the model that is asked, where it is known. */
  readonly price: Price | undefined;
  /** What must not be in any message. */
  readonly secrets: readonly string[];
}

/** What the model is told of a call that the token limit cut: it was not run. */
const CUT_CALL = "[not run: the token limit cut the answer]";

/** The model calls of one turn, from the first to the answer. */
export class ChatCalls {
  readonly #turn: AgentTurn;
  readonly #setup: CallsSetup;
  readonly #request: ChatRequest;
  readonly #silence: Silence;
  /** Aborted when the provider falls silent, and when nobody reads any more. */
  readonly #givenUp = new AbortController();
  /** Of all that ends a call. */
  readonly #ended: AbortSignal;
  readonly #openTools = new Set<string>();
  #used: Usage | undefined;
  /** Whether what the call has cost is booked. */
  #booked = false;
  #text = "";
  #pieces = new SplitText();
  #thoughts = new SplitText();
  #answering = false;
  #stopped = false;
  #refused = false;
  #over = false;
  /** Steps that were read to their end, and who waits for one. */
  #stepsRead = 0;
  #wake: () => void = () => undefined;
  finishReason: string | undefined;

  constructor(turn: AgentTurn, setup: CallsSetup, request: ChatRequest) {
    this.#turn = turn;
    this.#setup = setup;
    this.#request = request;
    this.#ended = AbortSignal.any([turn.signal, this.#givenUp.signal]);
    this.#silence = new Silence(setup.chat.chunkTimeoutMs, () =>
      this.#givenUp.abort(new Error("the provider was silent")),
    );
  }

  /** True when it stopped before the answer was whole. Throws {@link ProviderFailure}, or what broke. */
  async play(): Promise<boolean> {
    try {
      if (this.#turn.shouldStop() !== undefined) return true;
      await this.#read(this.#start());
      return this.#stopped;
    } finally {
      this.#silence.end();
    }
  }

  #start(): AsyncIterator<AnswerPart> {
    const result = streamText({
      ...this.#request.settings,
      abortSignal: this.#ended,
      maxRetries: 0,
      allowSystemInMessages: true,
      // Each step would keep its request, which holds the whole conversation.
      experimental_include: { requestBody: false },
      // Providers fetch URLs themselves. A worker that did would fetch from its own network whatever an input names.
      experimental_download: (files) => Promise.resolve(files.map(() => null)),
      prepareStep: () => this.#beforeCall(),
      stopWhen: ({ steps }) => this.#mayEnd(steps.length, steps.at(-1)?.finishReason),
      // Errors come as parts of the stream; by default the SDK would print them.
      onError: () => undefined,
    });
    return answerParts(result);
  }

  /** The one place between a step and the next: nothing is called that the ledger does not know of. */
  async #beforeCall(): Promise<undefined> {
    this.#silence.pause();
    try {
      if (!(await this.#turn.announceCall(this.#request.model))) this.#refused = true;
    } finally {
      this.#silence.resume();
    }
    if (this.#refused || this.#over) throw new Error("the turn was ended before the call");
    this.#answering = false;
    this.#booked = false;
    forgetAnswer(this.#ended);
  }

  /** Whether no further call is made after this step. Our own reading comes first: limits count what it books. */
  async #mayEnd(steps: number, finishReason: string | undefined): Promise<boolean> {
    if (this.#stepsRead < steps && !this.#over) await new Promise<void>((resolve) => (this.#wake = resolve));
    if (this.#over) return true;
    this.#stopped ||= this.#turn.shouldStop() !== undefined;
    // A call that the token limit cut would only be made again.
    return this.#stopped || finishReason === "length";
  }

  async #read(parts: AsyncIterator<AnswerPart>): Promise<void> {
    try {
      for (;;) {
        const next = await parts.next().catch((error: unknown) => Promise.reject(this.#failed(error)));
        // An abort can end the stream without a word.
        if (next.done === true) return this.#checkWhole();
        this.#silence.heard();
        this.#take(next.value);
      }
    } finally {
      // What we gave up on must not go on to another call by itself.
      this.#over = true;
      this.#givenUp.abort();
      this.#wake();
      void parts.return?.().catch(() => undefined);
    }
  }

  #take(part: AnswerPart): void {
    switch (part.type) {
      case "start-step":
        this.#answering = true;
        return;
      case "text-delta":
        this.#speak(this.#pieces.add(part.text));
        return;
      case "text-end":
        this.#speak(this.#pieces.end());
        return;
      case "reasoning-delta":
        this.#turn.emit({ type: "thought_delta", text: this.#thoughts.add(part.text) });
        return;
      case "tool-call":
        this.#startTool(part.toolCallId, part.toolName, part.input);
        return;
      case "tool-result":
        this.#endTool(part.toolCallId, "ok", part.output);
        return;
      case "tool-error":
        this.#endTool(part.toolCallId, "error", messageOf(part.error));
        return;
      case "finish-step":
        this.#endStep(part);
        return;
      case "error":
        throw this.#failed(part.error);
      case "abort":
        throw this.#failed(new Error("the call was aborted"));
      default:
        return;
    }
  }

  #speak(text: string): void {
    this.#text += text;
    this.#turn.emit({ type: "text_delta", text });
  }

  #startTool(id: string, name: string, input: unknown): void {
    this.#openTools.add(id);
    // A tool that runs keeps the provider waiting, not the other way round.
    this.#silence.pause();
    this.#turn.emit({ type: "tool_start", id, name, args: toJson(input) });
  }

  #endTool(id: string, status: "ok" | "error" | "denied", result: unknown): void {
    if (!this.#openTools.delete(id)) return;
    this.#silence.resume();
    this.#turn.emit({ type: "tool_end", id, status, result: toJson(result) });
  }

  #endStep({ usage, finishReason }: Extract<AnswerPart, { type: "finish-step" }>): void {
    if (this.#errorSaid()) throw this.#failed(new Error("the answer ended with an error"));
    const { chat, price } = this.#setup;
    const spent = usageOfCall(usage, price);
    // An answer that was cut ends without its usage, but may have named some of it.
    this.#book(spent.known === "unknown" ? (this.#floor() ?? spent) : spent);
    this.finishReason = finishReason;
    // The SDK runs no tool of an answer that did not end by itself.
    if (finishReason === "length") for (const id of this.#openTools) this.#endTool(id, "denied", CUT_CALL);
    const rawResponse = this.#text;
    this.#text = "";
    this.#pieces = new SplitText();
    this.#thoughts = new SplitText();
    this.#turn.endStep(finishReason !== "error", {
      rawResponse,
      ...(chat.system === undefined ? {} : { systemPrompt: chat.system }),
    });
    this.#checkEnd(finishReason, spent);
    this.#stepsRead += 1;
    this.#wake();
  }

  /** An abort can end the stream without a word, and so can an error that is no piece of a stream. */
  #checkWhole(): void {
    if (this.#silence.fell || this.#errorSaid()) throw this.#failed(new Error("the stream ended"));
  }

  #errorSaid(): boolean {
    return heardAnswer(this.#ended)?.error !== undefined;
  }

  #checkEnd(finishReason: string, spent: Usage): void {
    if (finishReason === "content-filter")
      throw new ProviderFailure(failure("refused", "the provider's content filter ended the answer"));
    if (finishReason === "error") throw new Error("the provider ended the answer with an error");
    if (this.#setup.chat.reportsTokens !== false && (totalTokens(spent) ?? 0) === 0)
      throw new Error("the answer ended without any tokens reported: the stream was cut, or the provider reports none");
  }

  /** What the answer said to have used so far. */
  #floor(): Usage | undefined {
    const usage = heardAnswer(this.#ended)?.usage;
    return usage === undefined ? undefined : withCost(usage, this.#setup.price);
  }

  #book(spent: Usage): void {
    this.#booked = true;
    this.#used = this.#used === undefined ? spent : addUsage(this.#used, spent);
    this.#turn.emit({ type: "usage", usage: this.#used });
  }

  #failed(thrown: unknown): Error {
    const spent = this.#booked ? undefined : this.#floor();
    if (spent !== undefined) this.#book(spent);
    // No cause: what a provider says may hold what must not be stored.
    if (this.#turn.signal.aborted || this.#refused) return new Error("the turn was ended");
    if (this.#silence.fell) {
      const text = `the provider was silent for ${this.#setup.chat.chunkTimeoutMs} ms`;
      return new ProviderFailure(failure("idle_timeout", text));
    }
    const { failure: why, billed } = callFailure(thrown, {
      now: Date.now(),
      secrets: this.#setup.secrets,
      answering: this.#answering,
      heard: heardAnswer(this.#ended),
    });
    if (!billed && !this.#booked) this.#book(REFUSED_CALL);
    // A broken stream is a crash: what came of it is a partial record.
    return why.code === "agent_crash" ? new Error(why.message) : new ProviderFailure(why);
  }
}
