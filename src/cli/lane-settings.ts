import type { WorkerOptions } from "../turnq.ts";
import type { OpenStore } from "./open-store.ts";

/** The limits of lanes over all workers, and how long turns are kept, as the configuration file has them; without one they stay as they are stored. */
export function laneSettings({
  config,
}: Pick<OpenStore, "config">): Partial<Pick<WorkerOptions, "laneConcurrency" | "laneLimits" | "retention">> {
  if (config.file === undefined) return {};
  const lanes = Object.entries(config.lanes);
  return {
    laneConcurrency: Object.fromEntries(
      lanes.flatMap(([name, { concurrency }]) => (concurrency === undefined ? [] : [[name, concurrency] as const])),
    ),
    laneLimits: Object.fromEntries(lanes),
    retention: config.retention,
  };
}
