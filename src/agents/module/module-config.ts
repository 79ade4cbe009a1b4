import { z } from "zod";
import { Name } from "../../domain/id.ts";
import { Json } from "../../domain/json.ts";
import { LimitsInput, RetryInput } from "../../domain/limits.ts";

/** An agent that a file exports: a subclass of Agent, or what `defineAgent` gave. It runs in a process of its own. */
export const ModuleConfig = z.strictObject({
  type: z.literal("module"),
  /** The file, from the config's folder: .js, .mjs, .ts or .mts. */
  module: z.string().min(1),
  /** Which of its exports; not needed where there is one agent in it. */
  export: z.string().min(1).optional(),
  /** Names of the variables that its process gets besides the usual ones. */
  env: z.array(z.string().min(1)).optional(),
  /** Handed to a subclass of Agent as its config. */
  config: Json.optional(),
  /** Whether its agent is shown the turn's metadata; as the agent itself says unless given. */
  metadata: z.boolean().optional(),
  lane: Name.optional(),
  limits: LimitsInput.optional(),
  retry: RetryInput.optional(),
});
export type ModuleConfig = z.infer<typeof ModuleConfig>;
