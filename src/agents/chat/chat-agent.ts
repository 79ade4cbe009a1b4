import type { Agent } from "../../agent/agent.ts";
import type { AgentSpec, AttemptInit } from "../../agent/agent-spec.ts";
import { Readying } from "../../agent/readying.ts";
import { TurnqError } from "../../domain/error.ts";
import type { ChatConfig } from "./chat-config.ts";

export interface ChatDeps {
  /** The config's folder. */
  readonly baseDir: string;
  /** Where keys are. */
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** The agent that a `chat` entry of the config describes. */
export function chatAgent(name: string, chat: ChatConfig, { baseDir, env }: ChatDeps): AgentSpec {
  const apiKey = chat.apiKeyEnv === undefined ? undefined : env[chat.apiKeyEnv];
  const secrets = [apiKey, ...Object.values(chat.headers ?? {})].filter((secret) => secret !== undefined);
  const problem = problemOf(chat);
  const lacking = lackingOf(chat, apiKey);
  let ready: ((init: AttemptInit) => Agent) | undefined;
  // The SDK is large: who only submits turns does without it.
  const preparing = new Readying(async () => {
    if (problem !== undefined || lacking !== undefined) return;
    const [{ ChatAgent }, { modelSource }, { loadTools }] = await Promise.all([
      import("./chat-turn.ts"),
      import("./chat-model.ts"),
      import("./load-tools.ts"),
    ]);
    const tools = chat.tools === undefined ? {} : await loadTools(chat.tools, baseDir);
    const config = { chat, models: modelSource(chat, apiKey), tools, secrets };
    ready = (init) => new ChatAgent({ ...init, name, config });
  });
  return {
    name,
    lane: chat.lane ?? name,
    kind: "chat",
    abilities: {
      cooperativeStop: true,
      announcesCalls: true,
      ...(chat.price === undefined ? {} : { knowsCost: true }),
    },
    limits: chat.limits,
    retry: chat.retry,
    wantsCostLogTags: chat.costLogTags === true,
    get problem() {
      return problem ?? preparing.problem;
    },
    lacking,
    prepare: () => preparing.done(),
    again: () => preparing.again(),
    create: (init) => {
      if (ready === undefined) throw new TurnqError("internal", `agent ${name} was not prepared`);
      return ready(init);
    },
  };
}

function problemOf(chat: ChatConfig): string | undefined {
  return chat.provider === "openai-compatible" && chat.baseUrl === undefined ? "needs a baseUrl" : undefined;
}

/** The key is a matter of those who work: a producer that has none may submit all the same. */
function lackingOf(chat: ChatConfig, apiKey: string | undefined): string | undefined {
  if (chat.apiKeyEnv !== undefined && (apiKey ?? "") === "")
    return `its key is not there: ${chat.apiKeyEnv} is not set in the environment`;
  return undefined;
}
