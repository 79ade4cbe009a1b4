import { randomUUID } from "node:crypto";
import type { NewTurn, Stored } from "../ledger/ledger.ts";
import { commandOf } from "../ledger/scripts.ts";
import { submitArguments } from "../ledger/arguments.ts";
import { jobId, laneTag } from "../ledger/keys.ts";
import type { StoredRequest } from "../domain/turn-request.ts";
import { TurnqError, messageOf } from "../domain/error.ts";
import type { Lane } from "./lane-set.ts";
import { jobData } from "./job-shape.ts";

/** How far in the future a turn's job stands that waits for an earlier turn of its session, in ms. */
export const PARKED_MS = 3_600_000;
const PARKED_JITTER_MS = 600_000;
const TRIES = 3;

/** The delay of a parked turn's job: spread, so that a forgotten pile would not come due at once. */
export function parkedMs(): number {
  return PARKED_MS + Math.floor(Math.random() * PARKED_JITTER_MS);
}

type Transaction = Parameters<Lane["queue"]["backend"]["addJobToTransaction"]>[0] & {
  exec(): Promise<[Error | null, unknown][] | null>;
};

/**
 * Stores one chunk of turns of one lane: rows, requests, jobs and the wake-up of session heads in
 * one MULTI. Answers per turn. Sent again with the same nonce when a reply is an error or lost.
 */
export async function submitChunk(lane: Lane, turns: readonly NewTurn[]): Promise<Stored[]> {
  const nonce = randomUUID();
  const client = await lane.queue.backend.client;
  for (let left = TRIES; ; left--) {
    try {
      const transaction = client.multi() as Transaction;
      queueCommands(lane, turns, nonce, transaction);
      return await answersOf(lane, turns, nonce, transaction);
    } catch (error) {
      if (left <= 1 || error instanceof TurnqError) throw error;
    }
  }
}

function queueCommands(lane: Lane, turns: readonly NewTurn[], nonce: string, to: Transaction): void {
  const { backend } = lane.queue;
  const tag = laneTag(lane.name);
  void to.runCommand(commandOf("submit"), [tag, ...submitArguments(nonce, turns)]);
  for (const { request } of turns) void backend.addJobToTransaction(to, jobOf(request), jobId(request.id));
  const sessions = sessionsOf(turns);
  if (sessions.length > 0) void to.runCommand(commandOf("wake"), [tag, ...sessions]);
}

async function answersOf(lane: Lane, turns: readonly NewTurn[], nonce: string, sent: Transaction): Promise<Stored[]> {
  const replies = await sent.exec();
  if (replies === null) throw new Error("EXEC gave no reply");
  const failed = replies.find(([error]) => error !== null)?.[0];
  if (failed === undefined || failed === null) return replies[0]?.[1] as Stored[];
  // After a restart of Redis its script cache is empty. Outside a MULTI each script is sent whole when it is missing.
  if (messageOf(failed).startsWith("NOSCRIPT")) return oneByOne(lane, turns, nonce);
  throw failed;
}

/** The same commands outside a MULTI. Nothing was answered yet, and each may be repeated. */
async function oneByOne(lane: Lane, turns: readonly NewTurn[], nonce: string): Promise<Stored[]> {
  const { backend } = lane.queue;
  const client = await backend.client;
  const tag = laneTag(lane.name);
  const answers = (await client.runCommand(commandOf("submit"), [tag, ...submitArguments(nonce, turns)])) as Stored[];
  for (const { request } of turns) await backend.addJob(jobOf(request), jobId(request.id));
  const sessions = sessionsOf(turns);
  if (sessions.length > 0) await lane.ledger.wake(sessions);
  return answers;
}

function sessionsOf(turns: readonly NewTurn[]): string[] {
  return [...new Set(turns.flatMap(({ request }) => request.session ?? []))];
}

type JobJson = Parameters<Lane["queue"]["backend"]["addJob"]>[0];

/** A turn's job as BullMQ stores it. `stackTraceLimit` 0: a failure's account is in the ledger. */
export function jobOf(request: StoredRequest, generation = 1): JobJson {
  const delay = request.session === undefined ? 0 : parkedMs();
  const id = jobId(request.id, generation);
  return {
    id,
    name: request.agent,
    data: JSON.stringify(jobData(request)),
    opts: { jobId: id, delay, attempts: 1, stackTraceLimit: 0 },
    progress: 0,
    attemptsMade: 0,
    attemptsStarted: 0,
    stalledCounter: 0,
    timestamp: Date.now(),
    failedReason: "",
    stacktrace: [],
    returnvalue: "",
    delay,
    priority: 0,
    queueQualifiedName: `${laneTag(request.lane)}:${request.lane}`,
  } as unknown as JobJson;
}
