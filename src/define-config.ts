import type { TurnqConfig } from "./config.ts";

/**
 * What a `turnq.config.ts` exports as its default: gives it back as it is, so that an editor completes its keys and
 * the compiler refuses wrong ones. It is checked when it is loaded.
 */
export function defineConfig(config: TurnqConfig): TurnqConfig {
  return config;
}
