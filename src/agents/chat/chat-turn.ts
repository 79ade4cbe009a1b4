import { streamText, type TextStreamPart, type ToolSet } from "ai";
import { Agent, type TurnAnswer } from "../../agent/agent.ts";
import type { AgentTurn } from "../../agent/ongoing-turn.ts";
import { messageOf } from "../../domain/error.ts";
import { failure } from "../../domain/failure.ts";
import { toJson, type JsonObject } from "../../domain/json.ts";
import { addUsage, totalTokens, type Usage } from "../../domain/usage.ts";
import { callFailure } from "./call-failure.ts";
import { REFUSED_CALL, usageOfCall } from "./call-usage.ts";
import { ChatOptions, type ChatConfig } from "./chat-config.ts";
import type { ModelSource } from "./chat-model.ts";
import { toolSet, type ChatTools } from "./load-tools.ts";
import { modelMessages } from "./model-messages.ts";
import { ProviderFailure } from "./provider-failure.ts";

export interface ChatSetup {
  readonly chat: ChatConfig;
  readonly models: ModelSource;
  readonly tools: ChatTools;
  /** What must not be in any message. */
  readonly secrets: readonly string[];
}

type Chunk = TextStreamPart<ToolSet>;

/** An agent that is a model behind an API, with tools. It waits for I/O only, so it runs in the worker itself. */
export class ChatAgent extends Agent<ChatSetup> {
  static override readonly supportsCooperativeStop = true;
  static override readonly supportsCostLogTags = true;
  static override readonly announcesCalls = true;
  static override readonly knowsCost = true;
  #finishReason: string | undefined;

  override getEnvironmentInfo(): JsonObject {
    return {
      model: this.#model,
      ...(this.#finishReason === undefined ? {} : { finishReason: this.#finishReason }),
    };
  }

  protected override async takeTurn(turn: AgentTurn): Promise<TurnAnswer> {
    const call = new ChatTurn(turn, this.config, this.#request(turn));
    try {
      const stopped = await call.play();
      if (stopped) this.markStopped();
      return {};
    } catch (thrown) {
      if (thrown instanceof ProviderFailure) return { failure: thrown.failure };
      throw thrown;
    } finally {
      this.#finishReason = call.finishReason;
    }
  }

  get #model(): string {
    const asked = this.init.options["model"];
    return typeof asked === "string" ? asked : this.config.chat.model;
  }

  #request(turn: AgentTurn): ChatRequest {
    const { chat, models, tools } = this.config;
    const said = ChatOptions.safeParse(this.init.options);
    if (!said.success) {
      const [issue] = said.error.issues;
      const where = ["options", ...(issue?.path ?? [])].join(".");
      throw new ProviderFailure(failure("invalid_request", `${where}: ${issue?.message ?? "is not valid"}`));
    }
    const { model: _model, stop, ...settings } = { ...chat.options, ...said.data };
    const { turn: id, attempt, idempotencyKey } = this.init;
    const context = { turn: id, attempt, idempotencyKey, signal: turn.signal };
    return {
      model: this.#model,
      settings: {
        ...settings,
        ...(stop === undefined ? {} : { stopSequences: stop }),
        ...(chat.system === undefined ? {} : { system: chat.system }),
        model: models(this.#model),
        tools: toolSet(tools, context),
        messages: modelMessages(turn.history, turn.input),
        headers: this.#tags(),
      } as CallSettings,
    };
  }

  #tags(): Record<string, string> {
    const { costLogTags } = this.init;
    if (costLogTags === undefined || this.config.chat.costLogTags !== true) return {};
    const { turn, attempt, batch, agent } = costLogTags;
    return {
      "x-turnq-turn": encodeURIComponent(turn),
      "x-turnq-attempt": String(attempt),
      "x-turnq-agent": encodeURIComponent(agent),
      ...(batch === undefined ? {} : { "x-turnq-batch": encodeURIComponent(batch) }),
    };
  }
}

type CallSettings = Parameters<typeof streamText>[0];

interface ChatRequest {
  readonly model: string;
  readonly settings: CallSettings;
}

/** The calls of one turn, from the first to the answer. */
class ChatTurn {
  readonly #turn: AgentTurn;
  readonly #setup: ChatSetup;
  readonly #request: ChatRequest;
  /** Aborted when the turn is, and when the provider falls silent. */
  readonly #silence = new AbortController();
  #silent = false;
  #used: Usage | undefined;
  #text = "";
  #stopped = false;
  #refused = false;
  finishReason: string | undefined;

  constructor(turn: AgentTurn, setup: ChatSetup, request: ChatRequest) {
    this.#turn = turn;
    this.#setup = setup;
    this.#request = request;
  }

  /** True when it stopped before the answer was whole. Throws {@link ProviderFailure}, or what broke. */
  async play(): Promise<boolean> {
    if (this.#turn.shouldStop() !== undefined) return true;
    const { settings, model } = this.#request;
    const abortSignal = AbortSignal.any([this.#turn.signal, this.#silence.signal]);
    const { fullStream } = streamText({
      ...settings,
      abortSignal,
      maxRetries: 0,
      allowSystemInMessages: true,
      // The one place between a step and the next: nothing is called that the ledger does not know of.
      prepareStep: async () => {
        if (!(await this.#turn.announceCall(model))) this.#refused = true;
        if (this.#refused) throw new Error("the turn was ended before the call");
        return undefined;
      },
      stopWhen: () => {
        this.#stopped ||= this.#turn.shouldStop() !== undefined;
        // A call that the token limit cut would only be made again.
        return this.#stopped || this.finishReason === "length";
      },
      // Errors come as parts of the stream; by default the SDK would print them.
      onError: () => undefined,
    });
    await this.#read(fullStream);
    return this.#stopped;
  }

  async #read(stream: AsyncIterable<Chunk>): Promise<void> {
    const { chunkTimeoutMs } = this.#setup.chat;
    const watch =
      chunkTimeoutMs === undefined ? undefined : setInterval(() => this.#look(), Math.max(10, chunkTimeoutMs / 10));
    this.#heardAt = performance.now();
    const parts = stream[Symbol.asyncIterator]();
    try {
      for (;;) {
        const next = await parts.next().catch((error: unknown) => Promise.reject(this.#failed(error)));
        // An abort can end the stream without a word.
        if (next.done === true && this.#silent) throw this.#failed(new Error("the stream ended"));
        if (next.done === true) return;
        this.#heardAt = performance.now();
        this.#take(next.value);
      }
    } finally {
      clearInterval(watch);
      void parts.return?.().catch(() => undefined);
    }
  }

  #heardAt = 0;
  /** A tool that runs keeps the provider waiting, not the other way round. */
  #toolsOpen = 0;

  #look(): void {
    if (this.#toolsOpen > 0) this.#heardAt = performance.now();
    if (performance.now() - this.#heardAt < (this.#setup.chat.chunkTimeoutMs ?? Infinity)) return;
    this.#silent = true;
    this.#silence.abort(new Error("the provider was silent"));
  }

  #take(part: Chunk): void {
    const { emit } = this.#turn;
    switch (part.type) {
      case "text-delta":
        this.#text += part.text;
        emit({ type: "text_delta", text: part.text });
        return;
      case "reasoning-delta":
        emit({ type: "thought_delta", text: part.text });
        return;
      case "tool-call":
        this.#toolsOpen += 1;
        emit({ type: "tool_start", id: part.toolCallId, name: part.toolName, args: toJson(part.input) });
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

  #endTool(id: string, status: "ok" | "error", result: unknown): void {
    this.#toolsOpen -= 1;
    this.#turn.emit({ type: "tool_end", id, status, result: toJson(result) });
  }

  #endStep({ usage, finishReason }: Extract<Chunk, { type: "finish-step" }>): void {
    const { chat } = this.#setup;
    const spent = usageOfCall(usage, chat.price);
    this.#book(spent);
    this.finishReason = finishReason;
    const rawResponse = this.#text;
    this.#text = "";
    this.#turn.endStep(finishReason !== "error", {
      rawResponse,
      ...(chat.system === undefined ? {} : { systemPrompt: chat.system }),
    });
    if (finishReason === "content-filter")
      throw new ProviderFailure(failure("refused", "the provider's content filter ended the answer"));
    if (finishReason === "error") throw new Error("the provider ended the answer with an error");
    if (chat.reportsTokens !== false && (totalTokens(spent) ?? 0) === 0)
      throw new Error("the answer ended without any tokens reported: the stream was cut, or the provider reports none");
  }

  #book(spent: Usage): void {
    this.#used = this.#used === undefined ? spent : addUsage(this.#used, spent);
    this.#turn.emit({ type: "usage", usage: this.#used });
  }

  #failed(thrown: unknown): Error {
    if (this.#turn.signal.aborted || this.#refused) return new Error("the turn was ended", { cause: thrown });
    if (this.#silent) {
      const text = `the provider was silent for ${this.#setup.chat.chunkTimeoutMs} ms`;
      return new ProviderFailure(failure("idle_timeout", text));
    }
    const { failure: why, billed } = callFailure(thrown, Date.now(), this.#setup.secrets);
    if (!billed) this.#book(REFUSED_CALL);
    // A broken stream is a crash: what came of it is a partial record.
    return why.code === "agent_crash" ? new Error(why.message) : new ProviderFailure(why);
  }
}
