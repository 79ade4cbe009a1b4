import { Redis } from "ioredis";

/** What a server at an address says: `refused` answers, but not to us (another password, no free connection). */
export type ProbeAnswer = "up" | "loading" | "refused" | "down";

/** Asks once, without trying again; at most `withinMs`. Never rejects. */
export async function probe(url: string, withinMs = 2_000): Promise<ProbeAnswer> {
  const redis = new Redis(url, {
    lazyConnect: true,
    connectTimeout: withinMs,
    // Else a process that probed an empty port could not end for another two seconds.
    disconnectTimeout: 20,
    commandTimeout: withinMs,
    enableReadyCheck: false,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
    disableClientInfo: true,
    connectionName: "turnq-probe",
  });
  // A refusal before the first command comes as an event only.
  let last: Error | undefined;
  redis.on("error", (error: Error) => (last = error));
  try {
    await redis.connect();
    await redis.ping();
    return "up";
  } catch (error) {
    return answerOf(error) ?? answerOf(last) ?? "down";
  } finally {
    redis.disconnect();
  }
}

function answerOf(error: unknown): ProbeAnswer | undefined {
  if (!(error instanceof Error) || error.name !== "ReplyError") return undefined;
  return error.message.startsWith("LOADING") ? "loading" : "refused";
}
