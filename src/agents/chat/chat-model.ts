import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import type { LanguageModel } from "ai";
import type { ChatConfig } from "./chat-config.ts";
import { modelFetch } from "./transport.ts";

/** Gives a model of the provider by its name. */
export type ModelSource = (model: string) => LanguageModel;

/** The provider of a config; `apiKey` is the key itself. */
export function modelSource(config: ChatConfig, apiKey: string | undefined): ModelSource {
  const { provider, baseUrl, headers } = config;
  const common = {
    fetch: modelFetch,
    ...(headers === undefined ? {} : { headers }),
    ...(apiKey === undefined ? {} : { apiKey }),
  };
  switch (provider) {
    case "anthropic": {
      // Without one the SDK would look into the environment, which is not ours to read.
      const anthropic = createAnthropic({
        ...common,
        apiKey: apiKey ?? "none",
        ...(baseUrl === undefined ? {} : { baseURL: baseUrl }),
      });
      return (model) => anthropic(model);
    }
    case "openai-compatible": {
      const compatible = createOpenAICompatible({
        ...common,
        name: "turnq",
        baseURL: baseUrl ?? "",
        includeUsage: true,
      });
      return (model) => compatible.chatModel(model);
    }
  }
}
