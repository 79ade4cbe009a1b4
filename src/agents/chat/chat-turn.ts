import { Agent, type TurnAnswer } from "../../agent/agent.ts";
import type { AgentTurn } from "../../agent/ongoing-turn.ts";
import { failure } from "../../domain/failure.ts";
import type { JsonObject } from "../../domain/json.ts";
import { cleanText } from "../../domain/text.ts";
import { fieldProblem, problemsOf } from "../../parse/problem.ts";
import { ChatCalls, type CallSettings, type ChatRequest } from "./chat-calls.ts";
import { ChatOptions, type ChatConfig, type Price } from "./chat-config.ts";
import { withoutConsole, type ModelSource } from "./chat-model.ts";
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

/** An agent that is a model behind an API, with tools. It waits for I/O only, so it runs in the worker itself. */
export class ChatAgent extends Agent<ChatSetup> {
  static override readonly supportsCooperativeStop = true;
  static override readonly supportsCostLogTags = true;
  static override readonly announcesCalls = true;
  static override readonly knowsCost = true;
  #finishReason: string | undefined;
  readonly #warnings = new Set<string>();

  override getEnvironmentInfo(): JsonObject {
    return {
      model: this.#model,
      ...(this.#finishReason === undefined ? {} : { finishReason: this.#finishReason }),
      ...(this.#warnings.size === 0 ? {} : { warnings: [...this.#warnings] }),
    };
  }

  protected override async takeTurn(turn: AgentTurn): Promise<TurnAnswer> {
    const { chat, secrets } = this.config;
    const calls = new ChatCalls(turn, { chat, price: this.#price(), secrets }, this.#request(turn));
    try {
      const stopped = await calls.play();
      if (stopped) this.markStopped();
      return {};
    } catch (thrown) {
      if (thrown instanceof ProviderFailure) return { failure: thrown.failure };
      throw thrown;
    } finally {
      this.#finishReason = calls.finishReason;
    }
  }

  get #model(): string {
    const asked = this.init.options["model"];
    return typeof asked === "string" ? asked : modelOf(this.config.chat);
  }

  /** The price is that of the config's model. What another one costs is not known. */
  #price(): Price | undefined {
    const { chat } = this.config;
    if (this.#model === modelOf(chat)) return chat.price;
    if (this.init.limits.maxCostUsd === undefined) return undefined;
    const text = `limits.maxCostUsd: what the model ${this.#model} costs is not known`;
    throw new ProviderFailure(failure("invalid_request", text));
  }

  #request(turn: AgentTurn): ChatRequest {
    const { chat, models, tools } = this.config;
    const said = ChatOptions.safeParse(this.init.options);
    if (!said.success) {
      const problems = problemsOf(said.error, this.init.options, ChatOptions).map(fieldProblem);
      throw new ProviderFailure(failure("invalid_request", `options: ${problems.join("; ")}`));
    }
    const { model: _model, stop, ...settings } = { ...chat.options, ...said.data };
    const { turn: id, attempt, idempotencyKey } = this.init;
    const context = { turn: id, attempt, idempotencyKey, signal: turn.signal };
    return {
      model: this.#model,
      settings: {
        ...settings,
        ...(stop === undefined ? {} : { stopSequences: stop }),
        ...(chat.system === undefined ? {} : { system: cleanText(chat.system) }),
        model: withoutConsole(models(this.#model), (text) => this.#warnings.add(text)),
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

function modelOf(chat: ChatConfig): string {
  return chat.options?.model ?? chat.model;
}
