import { setTimeout as sleep } from "node:timers/promises";
import { createRedisBackend, type BackendFactory } from "bullmq";
import { effect, type Door } from "../pause/effect.ts";

/** Fields of a job's hash that BullMQ writes together with its own move, after its check of the lock. */
export type JobFields = Readonly<Record<string, string>>;

/** How long a lane takes nothing after Redis refused to give it a job, in ms: as long as a call to the ledger waits. */
const REFUSED_PAUSE_MS = 500;

const told = new WeakMap<object, JobFields>();

/** Has these fields written by BullMQ's own finish of the job, in the same round trip. */
export function writeWithFinish(job: object, fields: JobFields): void {
  told.set(job, fields);
}

type RedisBackend = ReturnType<typeof createRedisBackend>;
type FinishArguments = RedisBackend["moveToCompletedArgs"];

/** What workers and producers have BullMQ change, and how it is called as a door. */
const DOOR_OF = {
  waitForJob: "bull:listen",
  moveToActive: "bull:fetch",
  moveToCompleted: "bull:complete",
  moveToFailed: "bull:fail",
  moveToDelayed: "bull:delay",
  moveJobFromActiveToWait: "bull:wait",
  extendLocks: "bull:locks",
  moveStalledJobsToWait: "bull:stalled",
  updateProgress: "bull:progress",
  setQueueMeta: "bull:meta",
  removeQueueMetaFields: "bull:meta",
  trimEvents: "bull:trim",
  remove: "bull:remove",
} as const satisfies Partial<Record<keyof RedisBackend, Door>>;

/**
 * BullMQ's Redis backend, whose finishes also write what {@link writeWithFinish} was given.
 * `moveToFinishedArgs` takes such fields for a failed job only in its public form; the protected
 * one takes them for both (seen in bullmq 6.7.0; a test fails when that changes).
 */
export const finishingBackend: BackendFactory<RedisBackend> = (name, options, connections) => {
  const backend = createRedisBackend(name, options, connections);
  const finish: (...args: unknown[]) => ReturnType<FinishArguments> = Reflect.get(backend, "moveToFinishedArgs");
  const completed: FinishArguments = (job, value, remove, token, fetchNext) =>
    finish.call(backend, job, value, "returnvalue", remove, "completed", token, Date.now(), fetchNext, told.get(job));
  backend.moveToCompletedArgs = completed;
  const failed = backend.moveToFailed.bind(backend);
  backend.moveToFailed = (job, reason, remove, token, fetchNext, fields) =>
    failed(job, reason, remove, token, fetchNext, { ...fields, ...told.get(job) });
  for (const [method, door] of Object.entries(DOOR_OF)) behindDoor(backend, method, door);
  return backend;
};

function behindDoor(backend: RedisBackend, method: string, door: Door): void {
  const call: (...args: unknown[]) => Promise<unknown> = Reflect.get(backend, method);
  Reflect.set(backend, method, async (...args: unknown[]) => {
    try {
      return await effect(door, () => call.apply(backend, args));
    } catch (error) {
      // BullMQ's loop fetches again at once after an error reply: without a pause a full Redis has it spin.
      if (door === "bull:fetch" && error instanceof Error && error.name === "ReplyError") await sleep(REFUSED_PAUSE_MS);
      throw error;
    }
  });
}
