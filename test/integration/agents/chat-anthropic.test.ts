import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import { tmpdir } from "node:os";
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { runAttempt } from "../../../src/agent/attempt.ts";
import { chatAgent } from "../../../src/agents/chat/chat-agent.ts";
import { modelSource } from "../../../src/agents/chat/chat-model.ts";
import type { TurnRecord } from "../../../src/domain/turn-record.ts";
import { startOptions, storedRequest } from "../../agents.ts";

/** A stream of Anthropic's Messages API: 12 tokens in, of which 5 more were read from the cache, 7 out. */
function events(stopReason: string): string {
  const usage = { input_tokens: 12, cache_read_input_tokens: 5, cache_creation_input_tokens: 0, output_tokens: 1 };
  const message = {
    id: "m",
    type: "message",
    role: "assistant",
    model: "claude",
    content: [],
    stop_reason: null,
    usage,
  };
  return [
    { type: "message_start", message },
    { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
    { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Hello" } },
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason: stopReason, stop_sequence: null }, usage: { output_tokens: 7 } },
    { type: "message_stop" },
  ]
    .map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
    .join("");
}

function errorEvent(type: string): string {
  return `event: error\ndata: ${JSON.stringify({ type: "error", error: { type, message: "no more" } })}\n\n`;
}

let server: Server;
let reply: { status: number; type: string; body: string };
let asked: { headers: IncomingHttpHeaders; url: string | undefined } | undefined;
beforeEach(async () => {
  server = createServer((request, response) => {
    asked = { headers: request.headers, url: request.url };
    request.resume().once("end", () => {
      response.writeHead(reply.status, { "content-type": reply.type });
      response.end(reply.body);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
});
afterEach(async () => {
  server.closeAllConnections();
  server.close();
  await once(server, "close");
});

async function play(): Promise<TurnRecord> {
  const address = server.address();
  const port = typeof address === "object" ? address?.port : 0;
  const spec = chatAgent(
    "claude",
    {
      type: "chat",
      provider: "anthropic",
      baseUrl: `http://127.0.0.1:${port}/v1`,
      model: "claude",
      apiKeyEnv: "KEY",
      price: { inputPerMTok: 1, outputPerMTok: 10, cacheReadPerMTok: 0.1 },
    },
    { baseDir: tmpdir(), env: { KEY: "sk-ant" } },
  );
  await spec.prepare?.();
  const { record } = await runAttempt({
    spec,
    request: storedRequest({ input: "hello" }),
    attempt: 1,
    iteration: 1,
    generation: 1,
    history: [],
    before: { steps: 0, toolCalls: 0, tokens: 0, costUsd: 0 },
    mark: "",
    start: startOptions(),
    onEvent: () => undefined,
  }).done;
  return record;
}

test("Anthropic's API: the answer, each kind of token, the cost and the key", async () => {
  reply = { status: 200, type: "text/event-stream", body: events("end_turn") };
  const record = await play();
  expect(record).toMatchObject({
    status: "completed",
    output: "Hello",
    usage: { inputTokens: 12, cacheReadTokens: 5, outputTokens: 7, known: "reported" },
  });
  expect(record.usage.costUsd).toBeCloseTo((12 + 0.5 + 70) / 1e6, 12);
  expect(asked?.url).toBe("/v1/messages");
  expect(asked?.headers["x-api-key"]).toBe("sk-ant");
});

test("Anthropic's refusal is refused, and its 529 is overloaded", async () => {
  reply = { status: 200, type: "text/event-stream", body: events("refusal") };
  expect((await play()).failure?.code).toBe("refused");
  const error = { type: "error", error: { type: "overloaded_error", message: "Overloaded" } };
  reply = { status: 529, type: "application/json", body: JSON.stringify(error) };
  expect((await play()).failure?.code).toBe("overloaded");
});

test("U03: what Anthropic's answer had said of usage is kept when it is cut, and when an error comes in its middle", async () => {
  const [start = "", block = "", hello = ""] = events("end_turn").split(/(?<=\n\n)/);
  reply = { status: 200, type: "text/event-stream", body: start + block + hello };
  const floor = { inputTokens: 12, cacheReadTokens: 5, outputTokens: 1, modelCalls: 1, known: "partial" };
  expect(await play()).toMatchObject({ output: "Hello", usage: floor, status: "crashed" });
  reply = { ...reply, body: start + block + hello + errorEvent("overloaded_error") };
  expect(await play()).toMatchObject({
    output: "Hello",
    usage: floor,
    status: "failed",
    failure: { code: "overloaded" },
  });
});

test.each([
  ["overloaded_error", "overloaded"],
  ["rate_limit_error", "rate_limited"],
  ["authentication_error", "auth"],
  ["permission_error", "auth"],
  ["request_too_large", "context_overflow"],
  ["invalid_request_error", "invalid_request"],
  ["api_error", "agent_error"],
  ["strange_error", "agent_error"],
])("U03: Anthropic's %s with status 200 is %s, as an event and as a body", async (type, code) => {
  reply = { status: 200, type: "text/event-stream", body: errorEvent(type) };
  const failed = { status: "failed", failure: { code }, usage: { modelCalls: 1, known: "reported" } };
  expect(await play()).toMatchObject(failed);
  reply = { status: 200, type: "application/json", body: JSON.stringify({ type: "error", error: { type } }) };
  expect(await play()).toMatchObject(failed);
});

test("the environment decides neither where a model is nor with which key it is asked", () => {
  vi.stubEnv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1");
  vi.stubEnv("ANTHROPIC_API_KEY", "sk-of-somebody");
  onTestFinished(() => void vi.unstubAllEnvs());
  const model = modelSource({ type: "chat", provider: "anthropic", model: "claude" }, undefined)("claude");
  const config = Reflect.get(model, "config") as { baseURL: string; headers: () => Record<string, string> };
  expect(config.baseURL).toBe("https://api.anthropic.com/v1");
  expect(Object.values(config.headers())).not.toContain("sk-of-somebody");
});
