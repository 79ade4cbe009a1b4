import type { Cluster, Redis } from "ioredis";
import { isCluster } from "./cluster.ts";

/**
 * Sees to it that a call which has failed is over: ioredis 6.0.0 keeps what had no answer for the next connection,
 * however late that comes, also what timed out. Who submits and is told that it failed must not find the turn run later.
 */
export function endFailedCalls(redis: Redis): void {
  if (isCluster(redis)) failOnce(redis as unknown as Cluster);
  else redis.on("close", () => failUnanswered(redis));
}

/**
 * What has no answer is sent again where the next connection is there at its first try; otherwise it fails now, which
 * `maxRetriesPerRequest` does for later calls alone.
 */
function failUnanswered(redis: Redis): void {
  const kept: Kept | null | undefined = Reflect.get(redis, "prevCommandQueue");
  if (kept === undefined || kept === null) return;
  const tries: number = Reflect.get(redis, "retryAttempts");
  const someFailed = kept.toArray().some(({ command }) => command.isSettled);
  // All or nothing: a part of a MULTI would be executed by itself.
  if (tries <= 1 && !someFailed) return;
  for (let item = kept.shift(); item !== undefined; item = kept.shift()) {
    // As ioredis says it itself.
    item.command.reject(new Error("Connection is closed."));
  }
}

/** Commands without an answer, as ioredis keeps them. */
interface Kept {
  toArray(): readonly KeptCommand[];
  shift(): KeptCommand | undefined;
}

interface KeptCommand {
  readonly command: { readonly isSettled: boolean; readonly reject: (error: Error) => void };
}

/** A cluster sends a command again when the connection to its node fails it, although it has timed out before. */
function failOnce(cluster: Cluster): void {
  const send = cluster.sendCommand.bind(cluster);
  cluster.sendCommand = (command, ...where) => {
    const sent = send(command, ...where);
    const { reject } = command;
    command.reject = (error) => {
      if (Reflect.get(command, "isSettled") !== true) reject(error);
    };
    return sent;
  };
}
