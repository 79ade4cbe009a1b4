import type { StopReason } from "../../domain/stop-reason.ts";
import type { SupervisedProcess } from "../../process/supervised-process.ts";

/** The part of a process that the ladder needs. */
export type Stoppable = Pick<SupervisedProcess, "write" | "endInput" | "terminate" | "kill">;

/** The worker kills at the end of the grace and says so in the record; this comes after it, for stops that nobody else follows up. */
const AFTER_GRACE_MS = 100;

/**
 * Asks a program to stop, ever more firmly, over the grace: a line on its stdin, the end of its
 * stdin, SIGTERM, SIGKILL. Returns what calls the rest off.
 */
export function climbStopLadder(process: Stoppable, reason: StopReason, graceMs: number): () => void {
  process.write(`${JSON.stringify({ type: "stop", reason })}\n`);
  const rungs = [
    setTimeout(() => process.endInput(), graceMs / 2),
    setTimeout(() => process.terminate(), (graceMs * 3) / 4),
    setTimeout(() => process.kill(), graceMs + AFTER_GRACE_MS),
  ];
  return () => rungs.forEach((rung) => clearTimeout(rung));
}
