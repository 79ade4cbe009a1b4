import { createRedisBackend, type BackendFactory } from "bullmq";

/** Fields of a job's hash that BullMQ writes together with its own move, after its check of the lock. */
export type JobFields = Readonly<Record<string, string>>;

const told = new WeakMap<object, JobFields>();

/** Has these fields written by BullMQ's own finish of the job, in the same round trip. */
export function writeWithFinish(job: object, fields: JobFields): void {
  told.set(job, fields);
}

type RedisBackend = ReturnType<typeof createRedisBackend>;
type FinishArguments = RedisBackend["moveToCompletedArgs"];

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
  return backend;
};
