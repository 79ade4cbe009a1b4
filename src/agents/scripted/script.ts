import { z } from "zod";
import { Failure } from "../../domain/failure.ts";
import { Json } from "../../domain/json.ts";
import { StopReason } from "../../domain/stop-reason.ts";
import { PlanStep } from "../../domain/turn-record.ts";
import { Usage } from "../../domain/usage.ts";

const ms = z.number().int().nonnegative();
const CallUsage = Usage.omit({ known: true }).partial();

/**
 * One thing that a scripted agent does. In every text `{input}`, `{turn}`, `{attempt}`,
 * `{iteration}` and `{history}` (how many messages came before) are filled in.
 */
export const Action = z.union([
  /** Says a piece of the answer. */
  z.strictObject({ say: z.string() }),
  z.strictObject({ think: z.string() }),
  /** Announces a model call, in a new step. */
  z.strictObject({ call: z.union([z.literal(true), z.string()]) }),
  /** Reports what one model call used; the calls are added up. */
  z.strictObject({ usage: CallUsage }),
  z.strictObject({ plan: z.array(PlanStep) }),
  /** Calls a tool, which takes `ms`; with `open` it never ends. */
  z.strictObject({
    tool: z.string(),
    args: Json.optional(),
    result: Json.optional(),
    status: z.enum(["ok", "error", "denied"]).optional(),
    ms: ms.optional(),
    open: z.boolean().optional(),
  }),
  z.strictObject({ stepEnd: z.boolean() }),
  /** Waits; ends at once when the turn is killed. */
  z.strictObject({ wait: ms }),
  /** Waits until a file is there: a pause point for tests. */
  z.strictObject({ waitFor: z.string() }),
  /** Stops when `shouldStop` answers; then throws `thenThrow`, if given. `every` polls for ever, each so many ms. */
  z.strictObject({ poll: z.literal(true), thenThrow: z.string().optional(), every: ms.min(1).optional() }),
  /** Ends by a limit of its own. */
  z.strictObject({ stop: StopReason }),
  z.strictObject({ crash: z.string() }),
  /** Says that it failed. */
  z.strictObject({ fail: Failure }),
  /** Never ends, whatever is asked of it. */
  z.strictObject({ hang: z.literal(true) }),
  /** Blocks the event loop. */
  z.strictObject({ block: ms }),
  /** Starts a program that hangs; `escape` puts it out of reach of the agent's own kill; its pid is written to `pidFile`. */
  z.strictObject({ spawn: z.literal(true), escape: z.boolean().optional(), pidFile: z.string().optional() }),
  /** Ends its own process: for an agent in a process of its own. */
  z.strictObject({ exit: z.union([z.number().int(), z.enum(["SIGKILL", "SIGTERM", "SIGSEGV"])]) }),
  /** Adds a line to a file: tests count runs over all processes with it. */
  z.strictObject({ append: z.string(), line: z.string() }),
  /** From here on its record cannot be built. */
  z.strictObject({ breakRecord: z.string() }),
  /** The answer, instead of what was said. */
  z.strictObject({ answer: z.string() }),
]);
export type Action = z.infer<typeof Action>;

const Actions = z.array(Action);

/** The actions of every turn, or by the number of the attempt, `*` for the others. */
export const Script = z.union([Actions, z.record(z.string().regex(/^(\d+|\*)$/), Actions)]);
export type Script = z.infer<typeof Script>;

/** Config of a scripted agent; a request's `options.script` comes before it. Without a script it says its input. */
export const ScriptedConfig = z.strictObject({ script: Script.optional() });
export type ScriptedConfig = z.infer<typeof ScriptedConfig>;

const SAY_INPUT: readonly Action[] = [{ say: "{input}" }];

/** The actions of an attempt. */
export function actionsOf(script: Script | undefined, attempt: number): readonly Action[] {
  if (script === undefined) return SAY_INPUT;
  if (Array.isArray(script)) return script;
  return script[String(attempt)] ?? script["*"] ?? SAY_INPUT;
}
