import type { Reply } from "./simulated-model.ts";

type Answer = Extract<Reply, { kind: "answer" }>;

/** The usage of an answer, in the provider's terms: the prompt holds the cached part. */
export function usageJson(answer: Pick<Answer, "input" | "pieces">): object {
  const prompt = answer.input.inputTokens + answer.input.cacheReadTokens;
  return {
    prompt_tokens: prompt,
    completion_tokens: answer.pieces.length,
    total_tokens: prompt + answer.pieces.length,
    prompt_tokens_details: { cached_tokens: answer.input.cacheReadTokens },
  };
}

/** What stands in every body about a completion. */
export interface CompletionHead {
  readonly id: string;
  readonly created: number;
  readonly model: string;
}

/** The body of an answer that is not streamed. */
export function completionJson(head: CompletionHead, answer: Answer): object {
  const { tool, pieces, finish } = answer;
  const text = pieces.join("");
  const message =
    tool === undefined
      ? { role: "assistant", content: text }
      : { role: "assistant", content: null, tool_calls: [toolJson(tool, text)] };
  return {
    ...head,
    object: "chat.completion",
    choices: [{ index: 0, message, finish_reason: finish }],
    usage: usageJson(answer),
  };
}

function toolJson(tool: { readonly id: string; readonly name: string }, args: string): object {
  return { id: tool.id, type: "function", function: { name: tool.name, arguments: args } };
}

/** The chunks of a streamed answer: the one that opens it, one for each piece, and those that end it. */
export function chunksOf(head: CompletionHead, answer: Answer, withUsage: boolean): Chunks {
  const { tool, pieces, finish } = answer;
  const chunk = (choices: readonly object[], more: object = {}): object => ({
    ...head,
    object: "chat.completion.chunk",
    choices,
    ...more,
  });
  const delta = (content: object, reason: string | null = null): object =>
    chunk([{ index: 0, delta: content, finish_reason: reason }]);
  const piece = (text: string): object =>
    tool === undefined ? { content: text } : { tool_calls: [{ index: 0, function: { arguments: text } }] };
  const opening =
    tool === undefined
      ? { role: "assistant", content: "" }
      : { role: "assistant", content: null, tool_calls: [{ index: 0, ...toolJson(tool, "") }] };
  return {
    opening: delta(opening),
    pieces: pieces.map((text) => delta(piece(text))),
    closing: [delta({}, finish), ...(withUsage ? [chunk([], { usage: usageJson(answer) })] : [])],
  };
}

export interface Chunks {
  readonly opening: object;
  readonly pieces: readonly object[];
  readonly closing: readonly object[];
}

const STATUS_TEXT: Readonly<Record<number, readonly [type: string, message: string]>> = {
  400: ["invalid_request_error", "the request is not valid"],
  401: ["authentication_error", "the key is not valid"],
  404: ["not_found_error", "there is no such model"],
  429: ["rate_limit_error", "too many requests"],
  529: ["overloaded_error", "overloaded"],
};

/** The body of an error. */
export function errorJson(status: number, message?: string): object {
  const [type, text] = STATUS_TEXT[status] ?? ["server_error", "a fault of the simulator, on purpose"];
  return {
    error: { message: `simulated: ${message ?? text}`, type, code: status === 429 ? "rate_limit_exceeded" : type },
  };
}
