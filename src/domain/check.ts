import { z } from "zod";
import { Json } from "./json.ts";

/** The kinds of check that a turn's output can be held against. */
export const CheckType = z.enum(["equals", "includes", "regex", "number"]);
export type CheckType = z.infer<typeof CheckType>;

/** One check of the output. `value` is the turn's `target` unless given. */
export const Check = z.strictObject({ type: CheckType, value: Json.optional() });
export type Check = z.infer<typeof Check>;

/** What one check gave. */
export const CheckOutcome = z.object({ type: CheckType, passed: z.boolean(), note: z.string().optional() });
export type CheckOutcome = z.infer<typeof CheckOutcome>;

/** What the checks gave: `value` is the share that passed; `passed` means all. A score that was not measured is null. */
export const Score = z.object({ value: z.number().min(0).max(1), passed: z.boolean(), checks: z.array(CheckOutcome) });
export type Score = z.infer<typeof Score>;
