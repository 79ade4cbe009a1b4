import { randomUUID } from "node:crypto";
import type { NewTurn, Stored } from "../ledger/ledger.ts";
import { commandOf } from "../ledger/scripts.ts";
import { submitArguments } from "../ledger/arguments.ts";
import { jobId, laneTag } from "../ledger/keys.ts";
import type { StoredRequest } from "../domain/turn-request.ts";
import type { Lane } from "./lane-set.ts";
import { jobData } from "./job-shape.ts";
import { sendTogether } from "./transaction.ts";

/** How far in the future a turn's job stands that waits for an earlier turn of its session, in ms. */
export const PARKED_MS = 3_600_000;
const PARKED_JITTER_MS = 600_000;

/** The delay of a parked turn's job: spread, so that a forgotten pile would not come due at once. */
export function parkedMs(): number {
  return PARKED_MS + Math.floor(Math.random() * PARKED_JITTER_MS);
}

/**
 * Stores one chunk of turns of one lane: rows, requests, jobs and the wake-up of session heads in
 * one MULTI. Answers per turn. A resend has the same nonce and answers as the first did.
 */
export async function submitChunk(lane: Lane, turns: readonly NewTurn[]): Promise<Stored[]> {
  const { backend } = lane.queue;
  const tag = laneTag(lane.name);
  const sessions = sessionsOf(turns);
  const args = [tag, ...submitArguments(randomUUID(), turns)];
  const jobs = turns.map(({ request }) => [jobOf(request), jobId(request.id)] as const);
  const answers = await sendTogether(lane, "multi:submit", (to) => {
    void to.runCommand(commandOf("submit"), args);
    for (const [job, id] of jobs) void backend.addJobToTransaction(to, job, id);
    if (sessions.length > 0) void to.runCommand(commandOf("wake"), [tag, ...sessions]);
  });
  return answers as Stored[];
}

function sessionsOf(turns: readonly NewTurn[]): string[] {
  return [...new Set(turns.flatMap(({ request }) => request.session ?? []))];
}

type JobJson = Parameters<Lane["queue"]["backend"]["addJob"]>[0];

/** A turn's job as BullMQ stores it. `stackTraceLimit` 0: a failure's account is in the ledger. */
export function jobOf(request: StoredRequest, generation = 1): JobJson {
  // A retry goes at once. A session's turn is parked until the ledger has looked: its head's delay is set there.
  const ownDelay = generation === 1 ? (request.delayMs ?? 0) : 0;
  const delay = request.session === undefined ? ownDelay : ownDelay + parkedMs();
  const priority = request.priority ?? 0;
  const id = jobId(request.id, generation);
  return {
    id,
    name: request.agent,
    data: JSON.stringify(jobData(request)),
    opts: { jobId: id, delay, priority, attempts: 1, stackTraceLimit: 0 },
    progress: 0,
    attemptsMade: 0,
    attemptsStarted: 0,
    stalledCounter: 0,
    timestamp: Date.now(),
    failedReason: "",
    stacktrace: [],
    returnvalue: "",
    delay,
    priority,
    queueQualifiedName: `${laneTag(request.lane)}:${request.lane}`,
  } as unknown as JobJson;
}
