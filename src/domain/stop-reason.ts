import { z } from "zod";

/** What `shouldStop()` answers. The first reason is kept for the whole turn attempt. */
export const StopReason = z.enum([
  "cancelled",
  "shutdown",
  "deadline",
  "criterion",
  "max_steps",
  "max_tool_calls",
  "max_tokens",
  "max_cost",
  "lease_lost",
]);
export type StopReason = z.infer<typeof StopReason>;

const LIMITS: ReadonlySet<StopReason> = new Set(["max_steps", "max_tool_calls", "max_tokens", "max_cost"]);

/** True when the turn was stopped by one of its own limits: a limit is no failure. */
export function isLimit(reason: StopReason): boolean {
  return LIMITS.has(reason);
}
