import { z } from "zod";

/**
 * What a worker tells its supervisor, one JSON object per line. `watch`: the group of `pid` and
 * everything with this mark is the worker's; kill it when the worker is gone, in `dueMs`, or when it
 * holds more than `memoryMb`.
 * `done`: it has ended and was swept.
 */
export const SupervisorLine = z.discriminatedUnion("type", [
  z.object({
    type: z.literal("watch"),
    id: z.number().int(),
    pid: z.number().int().min(2),
    mark: z.string(),
    dueMs: z.number().nonnegative().optional(),
    memoryMb: z.number().positive().optional(),
  }),
  z.object({ type: z.literal("done"), id: z.number().int() }),
]);
export type SupervisorLine = z.infer<typeof SupervisorLine>;
export type Watch = Extract<SupervisorLine, { type: "watch" }>;

/** What a supervisor tells its worker, before it kills: what was watched under `id` held so much memory. */
export const SupervisorReport = z.object({
  type: z.literal("over_memory"),
  id: z.number().int(),
  usedMb: z.number(),
});
export type SupervisorReport = z.infer<typeof SupervisorReport>;
