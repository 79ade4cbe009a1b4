import { z } from "zod";
import { Name } from "../../domain/id.ts";
import { LimitsInput, RetryInput } from "../../domain/limits.ts";

const perMTok = z.number().nonnegative();

/** US dollars for a million tokens. A kind without a price of its own costs what its plain kind does. */
export const Price = z.strictObject({
  inputPerMTok: perMTok,
  outputPerMTok: perMTok,
  cacheReadPerMTok: perMTok.optional(),
  cacheWritePerMTok: perMTok.optional(),
});
export type Price = z.infer<typeof Price>;

/** What a request's `options` may say to a chat agent. */
export const ChatOptions = z.strictObject({
  model: z.string().min(1).optional(),
  temperature: z.number().optional(),
  topP: z.number().optional(),
  topK: z.number().optional(),
  maxOutputTokens: z.number().int().min(1).optional(),
  seed: z.number().int().optional(),
  stop: z.array(z.string()).optional(),
  presencePenalty: z.number().optional(),
  frequencyPenalty: z.number().optional(),
});
export type ChatOptions = z.infer<typeof ChatOptions>;

/** An agent that is a model behind an API. */
export const ChatConfig = z.strictObject({
  type: z.literal("chat"),
  /** How the API speaks. */
  provider: z.enum(["openai-compatible", "anthropic"]).default("openai-compatible"),
  /** The API's root, `…/v1`; Anthropic's own unless given, where that is the provider. */
  baseUrl: z.url({ protocol: /^https?$/ }).optional(),
  model: z.string().min(1),
  /** The name of the environment variable with the key. Without it no key is sent. */
  apiKeyEnv: z.string().min(1).optional(),
  system: z.string().optional(),
  /** A file that exports `tools`, from the config's folder. */
  tools: z.string().min(1).optional(),
  /** What the model is asked with unless a request says otherwise. */
  options: ChatOptions.optional(),
  /** Headers of every request; they are secrets. */
  headers: z.record(z.string(), z.string()).optional(),
  /** Longest silence in the middle of an answer, in ms. */
  chunkTimeoutMs: z.number().int().min(1).optional(),
  /** False for an API that reports no tokens: an answer without any is then no crash. */
  reportsTokens: z.boolean().optional(),
  /** Whether turn, attempt, batch and agent are sent as headers, for the provider's bills. */
  costLogTags: z.boolean().optional(),
  price: Price.optional(),
  lane: Name.optional(),
  limits: LimitsInput.optional(),
  retry: RetryInput.optional(),
});
export type ChatConfig = z.infer<typeof ChatConfig>;
