import { z } from "zod";

/** A fault: an HTTP status that is answered, or what happens to an answer. */
const FAULT = /^([45]\d\d|hang|cut|slow)$/;

/** Shares of requests that meet a fault, by its name: a status, `hang`, `cut` or `slow`. Together at most 1. */
export const Faults = z
  .record(z.string().regex(FAULT, "must be a status from 400 to 599, hang, cut or slow"), z.number().min(0).max(1))
  .refine((faults) => Object.values(faults).reduce((sum, share) => sum + share, 0) <= 1 + 1e-9, {
    message: "the shares add up to more than 1",
  });
export type Faults = z.infer<typeof Faults>;

const latency = z.number().min(0).max(3_600_000);

const settingFields = {
  /** Share of right answers, of those inputs that the answers file knows. */
  accuracy: z.number().min(0).max(1).optional(),
  /** What answers and faults are drawn from. */
  seed: z.number().int().optional(),
  /** Time before the first token, in ms: from, to. */
  latencyMs: z
    .tuple([latency, latency])
    .refine(([from, to]) => from <= to, { message: "must be from the smaller to the larger" })
    .optional(),
  /** Requests per second; more are answered with 429. */
  ratePerSecond: z.number().positive().max(1e6).optional(),
  faults: Faults.optional(),
};

/** How a simulated model behaves; all of it may be left out. */
export const ModelSettingsInput = z.strictObject(settingFields);
export type ModelSettingsInput = z.infer<typeof ModelSettingsInput>;

/** How a simulated model behaves. */
export interface ModelSettings {
  readonly accuracy: number;
  readonly seed: number;
  readonly latencyMs: readonly [number, number];
  /** Undefined: no limit. */
  readonly ratePerSecond?: number | undefined;
  readonly faults: Faults;
}

/** The share of right answers unless something else is asked for. */
export const DEFAULT_ACCURACY = 0.8;

/** The settings with what was left out. */
export function modelSettings(input: ModelSettingsInput): ModelSettings {
  return {
    accuracy: input.accuracy ?? DEFAULT_ACCURACY,
    seed: input.seed ?? 1,
    latencyMs: input.latencyMs ?? [0, 0],
    ratePerSecond: input.ratePerSecond,
    faults: input.faults ?? {},
  };
}
