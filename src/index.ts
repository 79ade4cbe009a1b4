/** The public names of turnq. All else is private. */
export { openTurnq, type AgentLike, type NamedClass, type NamedEntry, type OpenOptions } from "./app.ts";
export type { SubmitManyOptions, Turnq, WorkerHandle, WorkerOptions } from "./turnq.ts";
export type { Batch, BatchProgress, ResultsOptions } from "./batch-handle.ts";
export type { EventsOptions, TurnHandle } from "./queue/turn-handle.ts";
export { WaitTimeoutError } from "./queue/turn-handle.ts";
export type { CloseReport } from "./queue/worker.ts";
