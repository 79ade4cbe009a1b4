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

/** The provider of a config; `apiKey` is the key itself. */
export function modelSource(config: ChatConfig, apiKey: string | undefined): ModelSource {
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
      const quiet = new TransformStream<StreamPart, StreamPart>({
        transform(part, controller) {
          if (part.type !== "stream-start") return controller.enqueue(part);
          for (const warning of part.warnings) onWarning(textOfWarning(warning));
          controller.enqueue({ ...part, warnings: [] });
        },
      });
      return { ...rest, stream: stream.pipeThrough(quiet) };
    },
  };
  return wrapLanguageModel({ model, middleware });
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
