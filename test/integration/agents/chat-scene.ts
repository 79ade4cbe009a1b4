import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { runAttempt, type AttemptOrder, type AttemptOutcome } from "../../../src/agent/attempt.ts";
import type { AgentSpec } from "../../../src/agent/agent-spec.ts";
import { eventFaults } from "../../../src/agent/closed-events.ts";
import { chatAgent } from "../../../src/agents/chat/chat-agent.ts";
import { ChatConfig } from "../../../src/agents/chat/chat-config.ts";
import type { EventBody } from "../../../src/domain/turn-event.ts";
import { TurnRecord } from "../../../src/domain/turn-record.ts";
import { sumUsage } from "../../../src/domain/usage.ts";
import { startOptions, storedRequest } from "../../agents.ts";
import { ModelServer, type ModelReply, type ModelRequest } from "../../model-server.ts";

export const KEY = "sk-very-secret";

/** The folder with `tools.mjs`. */
export const TOOLS_FOLDER = join(import.meta.dirname, "../../fixtures/chat");

/** A model server that is gone after the test. */
export async function modelServer(reply: (request: ModelRequest) => ModelReply): Promise<ModelServer> {
  const server = await ModelServer.start(reply);
  onTestFinished(() => server.close());
  return server;
}

export interface Played extends AttemptOutcome {
  readonly events: EventBody[];
  readonly server: ModelServer;
  readonly spec: AgentSpec;
}

/** One attempt of a chat agent on a model server, and what came of it, which is sound. */
export async function play(
  reply: ModelReply | ((request: ModelRequest) => ModelReply),
  config: Partial<ChatConfig> = {},
  order: Partial<AttemptOrder> = {},
): Promise<Played> {
  const server = await modelServer(typeof reply === "function" ? reply : () => reply);
  const spec = chatAgent(
    "gpt",
    ChatConfig.parse({ type: "chat", baseUrl: server.baseUrl, model: "m", apiKeyEnv: "KEY", ...config }),
    { baseDir: TOOLS_FOLDER, env: { KEY } },
  );
  await spec.prepare?.();
  const events: EventBody[] = [];
  const outcome = await runAttempt({
    spec,
    request: storedRequest({ input: "hello", limits: { timeoutMs: 20_000, graceMs: 200 } }),
    attempt: 1,
    iteration: 1,
    generation: 1,
    history: [],
    before: { steps: 0, toolCalls: 0, tokens: 0, costUsd: 0 },
    mark: "",
    start: startOptions(),
    ...order,
    onEvent: (event) => {
      events.push(event);
      return order.onEvent?.(event);
    },
  }).done;
  TurnRecord.parse(outcome.record);
  expect(eventFaults(events)).toEqual([]);
  // The messages' tokens add up to the usage.
  const tokens = sumUsage(outcome.record.messages.flatMap(({ usage }) => usage ?? []));
  expect(tokens.outputTokens).toBe(outcome.record.usage.outputTokens);
  return { ...outcome, events, server, spec };
}
