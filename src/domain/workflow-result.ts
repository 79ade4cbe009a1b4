import { z } from "zod";
import { Result } from "./result.ts";
import { messageOf } from "./error.ts";
import { deepFreeze } from "./freeze.ts";

/** A Result and the Results it was made of, in the order of execution. */
export const WorkflowResult = z.intersection(Result, z.object({ steps: z.array(Result) }));
export type WorkflowResult = z.infer<typeof WorkflowResult>;

/** A Result with its steps. */
export function workflowResult(result: Readonly<Result>, steps: readonly Readonly<Result>[]): Readonly<WorkflowResult> {
  return deepFreeze({ ...result, steps: [...steps] });
}

export interface JoinOptions {
  /** Put `1. `, `2. ` … before the agents' names. */
  readonly numbered?: boolean | undefined;
  /** A note for a heading; by default `failed` on a failure. */
  readonly note?: ((result: Readonly<Result>, index: number) => string | undefined) | undefined;
}

/**
 * The outputs as one text, each under a heading `## [n. ]agent[ (note)]`. An empty output is
 * `(no output)`, a failure its error; a failed branch keeps its section.
 */
export function joinOutputs(results: readonly Readonly<Result>[], options: JoinOptions = {}): string {
  const note = options.note ?? ((result: Readonly<Result>) => (result.ok ? undefined : "failed"));
  return results
    .map((result, index) => {
      const number = options.numbered === true ? `${index + 1}. ` : "";
      const remark = note(result, index);
      const heading = `## ${number}${result.agent}${remark === undefined || remark === "" ? "" : ` (${remark})`}`;
      return `${heading}\n\n${bodyOf(result)}`;
    })
    .join("\n\n");
}

function bodyOf(result: Readonly<Result>): string {
  const output = result.output.trim() === "" ? undefined : result.output;
  if (result.ok) return output ?? "(no output)";
  return output === undefined ? result.error : `${output}\n\n${result.error}`;
}

/** The error of an aborted signal: its reason when that is an Error, else one with the reason's text. */
export function abortError(signal: AbortSignal): Error {
  const reason: unknown = signal.reason;
  if (reason instanceof Error) return reason;
  return new DOMException(reason === undefined ? "aborted" : messageOf(reason), "AbortError");
}
