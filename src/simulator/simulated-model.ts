import { type Answers } from "./answers.ts";
import { UNKNOWN_ANSWER, wrongAnswer } from "./answer-text.ts";
import { chance } from "./chance.ts";
import { messageText, question, systemPrompt, wantedTool, type ChatRequest } from "./chat-request.ts";
import type { ModelSettings } from "./model-settings.ts";
import { messageTokens, textTokens, tokenPieces } from "./tokens.ts";

/** What a simulated model does with a request. */
export type Reply =
  | { readonly kind: "refused"; readonly status: number }
  | { readonly kind: "hang"; readonly input: InputTokens }
  | {
      readonly kind: "answer";
      readonly input: InputTokens;
      /** The answer as it is streamed, a token a piece. */
      readonly pieces: readonly string[];
      readonly tool?: { readonly id: string; readonly name: string; readonly args: string } | undefined;
      readonly finish: "stop" | "length" | "tool_calls";
      readonly latencyMs: number;
      /** Between two pieces, in ms. */
      readonly gapMs: number;
      /** The connection is cut after so many pieces. */
      readonly cutAfter?: number | undefined;
    };

export interface InputTokens {
  readonly inputTokens: number;
  readonly cacheReadTokens: number;
}

/** The pause between two tokens of an answer that meets the fault `slow`, in ms. */
const SLOW_GAP_MS = 100;

/**
 * One simulated model. What it does with a request depends on its seed, its name, the question and
 * how often that was asked before, and on nothing else: the same requests, the same replies.
 */
export class SimulatedModel {
  readonly name: string;
  readonly settings: ModelSettings;
  readonly #answers: Answers;
  readonly #asked = new Map<string, number>();
  readonly #cached = new Set<string>();

  constructor(name: string, settings: ModelSettings, answers: Answers) {
    this.name = name;
    this.settings = settings;
    this.#answers = answers;
  }

  reply(request: ChatRequest): Reply {
    const asked = question(request);
    // Messages count too: the steps of one turn ask the same question with more behind it.
    const draw = this.#draw(`${request.messages.length} ${asked}`);
    const fault = this.#fault(draw);
    if (fault !== undefined && /^\d/.test(fault)) return { kind: "refused", status: Number(fault) };
    const input = this.#input(request);
    if (fault === "hang") return { kind: "hang", input };
    const tool = wantedTool(request);
    const { pieces, finish } = this.#said(request, tool === undefined ? this.#answer(asked, draw) : "", tool);
    const [from, to] = this.settings.latencyMs;
    return {
      kind: "answer",
      input,
      pieces,
      finish,
      ...(tool === undefined ? {} : { tool: { id: `call_${Math.floor(chance("call", ...draw) * 1e9)}`, ...tool } }),
      latencyMs: from + (to - from) * chance("latency", ...draw),
      gapMs: fault === "slow" ? SLOW_GAP_MS : 0,
      ...(fault === "cut" ? { cutAfter: Math.floor(pieces.length * chance("cut", ...draw)) } : {}),
    };
  }

  #draw(about: string): readonly (string | number)[] {
    const times = (this.#asked.get(about) ?? 0) + 1;
    this.#asked.set(about, times);
    return [this.settings.seed, this.name, about, times];
  }

  #fault(draw: readonly (string | number)[]): string | undefined {
    let left = chance("fault", ...draw);
    for (const [name, share] of Object.entries(this.settings.faults)) {
      if (left < share) return name;
      left -= share;
    }
    return undefined;
  }

  #answer(asked: string, draw: readonly (string | number)[]): string {
    const right = this.#answers.get(asked);
    if (right === undefined) return UNKNOWN_ANSWER;
    return chance("right", ...draw) < this.settings.accuracy ? right : wrongAnswer(right, ...draw);
  }

  #said(
    request: ChatRequest,
    text: string,
    tool: { readonly args: string } | undefined,
  ): { readonly pieces: readonly string[]; readonly finish: "stop" | "length" | "tool_calls" } {
    const all = tokenPieces(tool === undefined ? text : tool.args);
    const room = request.max_completion_tokens ?? request.max_tokens ?? all.length;
    if (all.length > room) return { pieces: all.slice(0, room), finish: "length" };
    return { pieces: all, finish: tool === undefined ? "stop" : "tool_calls" };
  }

  /** A system prompt that was seen before is read from the cache, as providers do. */
  #input(request: ChatRequest): InputTokens {
    const total = request.messages.reduce((sum, message) => sum + messageTokens(messageText(message)), 0);
    const tools = request.tools === undefined ? 0 : textTokens(JSON.stringify(request.tools));
    const system = systemPrompt(request);
    if (system.length === 0) return { inputTokens: total + tools, cacheReadTokens: 0 };
    const key = JSON.stringify(system.map(messageText));
    const tokens = system.reduce((sum, message) => sum + messageTokens(messageText(message)), 0);
    const cacheReadTokens = this.#cached.has(key) ? tokens : 0;
    this.#cached.add(key);
    return { inputTokens: total + tools - cacheReadTokens, cacheReadTokens };
  }
}
