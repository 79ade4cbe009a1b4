import type { Command } from "commander";
import { once } from "node:events";
import type { CommandContext } from "../context.ts";
import { EXIT } from "../failure-text.ts";
import { startEmbedded } from "../open-store.ts";
import { OPTIONS } from "../option-parsers.ts";

interface RedisOptions {
  readonly json?: boolean | undefined;
  readonly quiet?: boolean | undefined;
}

/** Adds `turnq redis`. */
export function addRedis(program: Command, act: (options: RedisOptions) => Promise<void>): void {
  program
    .command("redis")
    .description(
      "Starts or adopts the Redis in .turnq/redis of this folder, prints its URL, and keeps it up until a signal.",
    )
    .addOption(OPTIONS.json())
    .addOption(OPTIONS.quiet())
    .addHelpText(
      "after",
      `
Example:
  $ turnq redis

Next: give the URL to any tool that reads BullMQ. A lane NAME is the queue NAME with the prefix {turnq:NAME}.`,
    )
    .action(act);
}

/** Stays a user of the embedded Redis until a signal. */
export async function redis(context: CommandContext, options: RedisOptions): Promise<number> {
  const { output, settings } = context;
  const interruption = context.interruptible();
  const { url, port, pid, adopted, close } = await startEmbedded(context);
  try {
    if (options.json === true) await output.object({ type: "redis", url, port, pid, adopted });
    else await output.line(url);
    if (options.quiet !== true) {
      output.note(
        `${adopted ? "it was running already" : "started"}; the URL has its password in it. Its data are in .turnq/redis. Ctrl-C lets it go.`,
      );
      output.note(
        "next: give the URL to any BullMQ tool; a lane NAME is the queue NAME with the prefix {turnq:NAME}; the set turnq:lanes lists the lanes",
      );
      if (settings.redisUrl !== undefined)
        output.note("REDIS_URL is set: the other commands use that Redis and not this one");
    }
    if (!interruption.signal.aborted) await once(interruption.signal, "abort");
    return EXIT.ok;
  } finally {
    close();
  }
}
