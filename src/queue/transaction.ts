import { setTimeout as sleep } from "node:timers/promises";
import { messageOf } from "../domain/error.ts";
import { effect, type Door } from "../pause/effect.ts";
import type { Lane } from "./lane-set.ts";

const TRIES = 3;
/** How long a connection that broke may take to be there again, in ms: it is opened anew after 25 to 500. */
const RECONNECT_MS = 1000;
const LOOK_EVERY_MS = 10;

/** A MULTI of the lane's connection. */
export type Transaction = Parameters<Lane["queue"]["backend"]["addJobToTransaction"]>[0] & {
  exec(): Promise<[Error | null, unknown][] | null>;
};

type Client = Awaited<Lane["queue"]["backend"]["client"]>;

/**
 * Sends commands as one MULTI, looks at every reply inside its EXEC, and answers the first. When one
 * is an error or lost, all are sent again: whatever `queue` puts into it must bear being executed
 * twice, also where the first time only a part of it was.
 */
export async function sendTogether(lane: Lane, door: Door, queue: (to: Transaction) => void): Promise<unknown> {
  const client = await lane.queue.backend.client;
  for (let left = TRIES; ; left--) {
    try {
      const transaction = client.multi() as Transaction;
      queue(transaction);
      const replies = await effect(door, () => transaction.exec());
      const failed = replies?.find(([error]) => error !== null)?.[0];
      if (failed !== undefined && failed !== null) throw failed;
      if (replies !== null) return replies[0]?.[1];
    } catch (error) {
      if (left <= 1 || isSilence(error)) throw causeOf(error);
      // After a restart Redis knows no script, and ioredis cannot send it whole inside a MULTI.
      if (messageOf(error).startsWith("NOSCRIPT")) await loadScripts(client);
      // Of a connection that breaks ioredis sends again what is alone, not a MULTI; and a producer's takes nothing then.
      else await reconnected(client);
    }
  }
}

/** Redis took a producer's command and said nothing in time: asking again would only make its caller wait longer. */
function isSilence(error: unknown): boolean {
  // Command.js of ioredis 6.0.0 gives it no name or code.
  return messageOf(error) === "Command timed out";
}

/** What Redis said of the command for which it refused the MULTI, as ioredis keeps it beside EXECABORT. */
function causeOf(error: unknown): unknown {
  const before: unknown = error instanceof Error ? Reflect.get(error, "previousErrors") : undefined;
  return Array.isArray(before) && before[0] instanceof Error ? before[0] : error;
}

/** Waits until a connection can be used, or some time has passed. */
async function reconnected(client: Client): Promise<void> {
  const until = Date.now() + RECONNECT_MS;
  while (Reflect.get(client, "status") !== "ready" && Date.now() < until) await sleep(LOOK_EVERY_MS);
}

/** Has Redis load every script that this connection defines: ours and BullMQ's. */
async function loadScripts(client: Client): Promise<void> {
  const defined: Readonly<Record<string, { readonly lua: string }>> = Reflect.get(client, "scriptsSet") ?? {};
  // Every node of a cluster has scripts of its own, and which one lacks them is not said.
  const nodes: ((role: "master") => object[]) | undefined = client.isCluster ? Reflect.get(client, "nodes") : undefined;
  const loading = (nodes?.call(client, "master") ?? [client]).flatMap((node) => {
    const load: (how: "LOAD", lua: string) => Promise<unknown> = Reflect.get(node, "script");
    return Object.values(defined).map(({ lua }) => load.call(node, "LOAD", lua));
  });
  await Promise.all(loading);
}
