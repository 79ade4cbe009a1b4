import { z } from "zod";
import { Faults } from "./model-settings.ts";

const settings = z.object({
  accuracy: z.number(),
  seed: z.number(),
  latencyMs: z.tuple([z.number(), z.number()]),
  ratePerSecond: z.number().optional(),
  faults: Faults,
});

/** What a parent tells its simulator, a JSON line each. */
export const SimulatorOrder = z.discriminatedUnion("type", [
  z.object({ type: z.literal("start"), models: z.record(z.string(), settings) }),
  z.object({ type: z.literal("answers"), file: z.string() }),
]);
export type SimulatorOrder = z.infer<typeof SimulatorOrder>;

/** What the simulator answers. */
export const SimulatorSays = z.discriminatedUnion("type", [
  z.object({ type: z.literal("started"), url: z.string() }),
  z.object({ type: z.literal("answers"), known: z.number() }),
  z.object({ type: z.literal("error"), message: z.string() }),
]);
export type SimulatorSays = z.infer<typeof SimulatorSays>;
