import { z } from "zod";
import { Check } from "./check.ts";
import { Id, Name } from "./id.ts";
import { JsonObject } from "./json.ts";
import { Limits, LimitsInput, Retry, RetryInput } from "./limits.ts";
import { Part, textOf } from "./message.ts";

/** The input of a turn: text, or parts of a message. */
export const Input = z.union([z.string(), z.array(Part)]);
export type Input = z.infer<typeof Input>;

/** True for an input that asks nothing: a blank text, no part at all, or blank text in every part. A part of another type is content, whatever is in it. */
function isEmptyInput(input: Input): boolean {
  if (typeof input !== "string" && input.some((part) => part.type !== "text")) return false;
  return textOf(input).trim() === "";
}

/** Where a turn stands in its batch: sample × agent × epoch is a cell. */
export const Cell = z.strictObject({ id: Id, sample: Id, epoch: z.number().int().min(1) });
export type Cell = z.infer<typeof Cell>;

/** One value or several that the output is held against. */
export const Target = z.union([z.string(), z.number(), z.boolean(), z.array(z.union([z.string(), z.number()]))]);
export type Target = z.infer<typeof Target>;

const labels = z.record(z.string().max(100), z.string().max(500));

/** The largest priority that BullMQ takes. */
export const PRIORITY_MAX = 2 ** 21 - 1;
/** The longest delay and expiry of a turn, in ms: 100 years. */
const AHEAD_MAX_MS = 100 * 365 * 86_400_000;
const aheadMs = z.number().int().nonnegative().max(AHEAD_MAX_MS);

/** The largest request, in bytes of its JSON. */
export const REQUEST_MAX_BYTES = 8 * 1024 * 1024;

/**
 * What a producer asks for. Unknown keys are refused. `limits` and `retry` are left out where the
 * producer said nothing: the agent's configuration and then the defaults fill them.
 */
export const TurnRequest = z.strictObject({
  id: Id.optional(),
  agent: Name,
  /** Not an empty one. */
  input: Input.refine((input) => !isEmptyInput(input), "is empty"),
  session: Id.optional(),
  lane: Name.optional(),
  /** As in BullMQ: turns without one (0) go first, then 1, 2, 3 … */
  priority: z.number().int().min(0).max(PRIORITY_MAX).optional(),
  /** Not before so many ms after the submit. */
  delayMs: aheadMs.optional(),
  /** The turn ends as `expired` when it was not started so many ms after submit + delayMs; time parked does not count. */
  expiresInMs: aheadMs.min(1).optional(),
  limits: LimitsInput.optional(),
  retry: RetryInput.optional(),
  target: Target.optional(),
  expect: z.array(Check).optional(),
  batch: Cell.optional(),
  labels: labels.optional(),
  metadata: JsonObject.optional(),
  options: JsonObject.optional(),
});
export type TurnRequest = z.infer<typeof TurnRequest>;

/** What a line of a batch may say: its place in the batch is the submission's to give. */
export const LineRequest = TurnRequest.omit({ batch: true });

/** A request as it is stored and run: the id, lane, limits and retry rules are settled. */
export const StoredRequest = z.object({
  ...TurnRequest.shape,
  v: z.literal(1),
  id: Id,
  // What is stored is run and tried again as it is.
  input: Input,
  lane: Name,
  limits: Limits,
  retry: Retry,
});
export type StoredRequest = z.infer<typeof StoredRequest>;
