import { resolve } from "node:path";
import { jsonSchema, tool, type ToolSet } from "ai";
import { createJiti } from "jiti";
import { z } from "zod";
import { TurnqError, messageOf } from "../../domain/error.ts";
import { toJson } from "../../domain/json.ts";
import { cleanText } from "../../domain/text.ts";
import { fieldProblem, problemsOf } from "../../parse/problem.ts";

/** What a tool's `execute` is told beside its arguments. */
export interface ToolContext {
  readonly turn: string;
  readonly attempt: number;
  /** The same for every attempt of a generation: for services that do a thing once per key. */
  readonly idempotencyKey: string;
  /** Aborted when the turn is killed. */
  readonly signal: AbortSignal;
}

/** A tool as a module exports it under `tools`, by its name. */
export interface ChatTool {
  readonly description: string;
  /** A JSON schema or a zod schema of the arguments. */
  readonly parameters: unknown;
  readonly execute: (args: unknown, context: ToolContext) => unknown;
}

const Exported = z.record(
  z.string().regex(/^[\w-]{1,64}$/, "must be 1 to 64 letters, digits, _ and -"),
  z.object({
    description: z.string(),
    parameters: z.custom<object>((value) => typeof value === "object" && value !== null, "must be a schema"),
    execute: z.custom<ChatTool["execute"]>((value) => typeof value === "function", "must be a function"),
  }),
);
export type ChatTools = z.infer<typeof Exported>;

/** Loads the tools of a file, TypeScript or JavaScript. Throws `config`. */
export async function loadTools(file: string, baseDir: string): Promise<ChatTools> {
  const path = resolve(baseDir, file);
  let loaded: unknown;
  try {
    loaded = await createJiti(import.meta.url, { fsCache: false }).import(path);
  } catch (error) {
    throw new TurnqError("config", `the tools cannot be loaded: ${messageOf(error)}`, { where: file, cause: error });
  }
  const { tools, default: fallback } = Object(loaded) as { readonly tools?: unknown; readonly default?: unknown };
  const given: unknown = tools ?? Reflect.get(Object(fallback), "tools") ?? fallback;
  const parsed = Exported.safeParse(given);
  if (parsed.success) return parsed.data;
  const problems = problemsOf(parsed.error, given, Exported).map(fieldProblem);
  throw new TurnqError("config", `tools: ${problems.join("; ")}`, {
    where: file,
    hint: "Export `tools`: by name {description, parameters, execute(args, context)}.",
  });
}

/** The tools as the SDK takes them, for one attempt. */
export function toolSet(tools: ChatTools, context: ToolContext): ToolSet {
  return Object.fromEntries(
    Object.entries(tools).map(([name, { description, parameters, execute }]) => [
      name,
      tool<unknown, unknown>({
        description,
        inputSchema: parameters instanceof z.ZodType ? parameters : jsonSchema<unknown>(parameters),
        execute: (args) => resultOf(() => execute(args, context)),
      }),
    ]),
  );
}

/** What a tool gave or threw, in a form that goes out and is stored alike. */
async function resultOf(run: () => unknown): Promise<unknown> {
  try {
    return toJson((await run()) ?? null);
  } catch (thrown) {
    throw new Error(cleanText(messageOf(thrown)), { cause: thrown });
  }
}
