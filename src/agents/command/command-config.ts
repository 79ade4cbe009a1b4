import { z } from "zod";
import { Name } from "../../domain/id.ts";
import { LimitsInput, RetryInput } from "../../domain/limits.ts";

/** An agent that is a program: any language, spoken to by the command protocol or by plain text. */
export const CommandConfig = z
  .strictObject({
    type: z.literal("command"),
    /** Program and arguments. A program with a `/` in it is looked for from the config's folder, else on the PATH. */
    command: z.array(z.string()).nonempty(),
    /** `events`: stdout speaks the command protocol. `text`: all of stdout is the answer. */
    output: z.enum(["events", "text"]).default("text"),
    /** `json`: its stdin holds the protocol's line. `text`: no more than the text of the input. */
    input: z.enum(["json", "text"]).default("json"),
    /** Names of the variables that the program gets besides the usual ones. */
    env: z.array(z.string().min(1)).optional(),
    /** Where it runs, from the config's folder; that folder itself unless given. */
    cwd: z.string().min(1).optional(),
    /** Each attempt runs in a new, empty folder, which is its HOME and TMPDIR too, and is removed at its end. */
    freshFolder: z.boolean().optional(),
    /** `stdin`: it is told to stop by a line on its stdin, which stays open. Without it, it has no cooperative stop. */
    stop: z.literal("stdin").optional(),
    /** Whether its usage lines say `costUsd`, so that a limit on cost can hold. */
    reportsCost: z.boolean().optional(),
    /** Whether it is shown the turn's metadata. */
    metadata: z.boolean().optional(),
    lane: Name.optional(),
    limits: LimitsInput.optional(),
    retry: RetryInput.optional(),
  })
  .refine(({ cwd, freshFolder }) => cwd === undefined || freshFolder !== true, {
    path: ["cwd"],
    message: "cannot be given with freshFolder, which is where it runs",
  });
export type CommandConfig = z.infer<typeof CommandConfig>;
