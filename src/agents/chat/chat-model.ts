import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { wrapLanguageModel, type LanguageModelMiddleware } from "ai";
import type { ChatConfig } from "./chat-config.ts";
import { modelFetch } from "./transport.ts";

/** A model of a provider, before a turn makes it its own. */
export type Model = Parameters<typeof wrapLanguageModel>[0]["model"];
/** Gives a model of the provider by its name. */
export type ModelSource = (model: string) => Model;

/** Where Anthropic is. Without it the SDK would look into the environment, which is not ours to read. */
const ANTHROPIC_URL = "https://api.anthropic.com/v1";

/** How many models of one provider are kept: turns may name their own. */
const KEPT_MODELS = 20;

/** The provider of a config; `apiKey` is the key itself. */
export function modelSource(config: ChatConfig, apiKey: string | undefined): ModelSource {
  const source = newModels(config, apiKey);
  // A model holds the schemas of its answers, which are as large as all else that a turn holds.
  const kept = new Map<string, Model>();
  return (name) => {
    const model = kept.get(name) ?? source(name);
    if (kept.size < KEPT_MODELS) kept.set(name, model);
    return model;
  };
}

function newModels(config: ChatConfig, apiKey: string | undefined): ModelSource {
  const { provider, baseUrl, headers } = config;
  const common = { fetch: modelFetch, ...(headers === undefined ? {} : { headers }) };
  switch (provider) {
    case "anthropic": {
      // A key for the same reason as the URL: the SDK takes the environment's where there is none.
      const anthropic = createAnthropic({ ...common, apiKey: apiKey ?? "none", baseURL: baseUrl ?? ANTHROPIC_URL });
      return (model) => anthropic(model);
    }
    case "openai-compatible": {
      const compatible = createOpenAICompatible({
        ...common,
        ...(apiKey === undefined ? {} : { apiKey }),
        name: "turnq",
        baseURL: baseUrl ?? "",
        includeUsage: true,
      });
      return (model) => compatible.chatModel(model);
    }
  }
}

/**
 * The model with its warnings told to `onWarning` instead of the console: the SDK writes them to
 * stdout and stderr, which belong to whoever runs the turn.
 */
export function withoutConsole(model: Model, onWarning: (text: string) => void): Model {
  const middleware: LanguageModelMiddleware = {
    specificationVersion: "v3",
    wrapStream: async ({ doStream }) => {
      const { stream, ...rest } = await doStream();
      const reader = stream.getReader();
      const { value: first } = await reader.read();
      reader.releaseLock();
      // Left out, and not replaced: one more stream around each answer would cost as much as the answer.
      if (first?.type === "stream-start") for (const warning of first.warnings) onWarning(textOfWarning(warning));
      return { ...rest, stream: first === undefined || first.type === "stream-start" ? stream : behind(first, stream) };
    },
  };
  return wrapLanguageModel({ model, middleware });
}

/** A stream with the part in front of it again. */
function behind(first: StreamPart, stream: ReadableStream<StreamPart>): ReadableStream<StreamPart> {
  async function* parts(): AsyncGenerator<StreamPart> {
    yield first;
    yield* stream;
  }
  return ReadableStream.from(parts());
}

type WrapStream = NonNullable<LanguageModelMiddleware["wrapStream"]>;
type StreamPart = Awaited<ReturnType<WrapStream>>["stream"] extends ReadableStream<infer Part> ? Part : never;
type Warning = Extract<StreamPart, { type: "stream-start" }>["warnings"][number];

function textOfWarning(warning: Warning): string {
  if (warning.type === "other") return warning.message;
  const details = warning.details === undefined ? "" : `: ${warning.details}`;
  return warning.type === "unsupported"
    ? `${warning.feature} is not supported and was not sent${details}`
    : `${warning.feature} is used in a compatible form${details}`;
}
