import { z } from "zod";
import { cutText } from "../domain/text.ts";
import { outcomeOf, type Outcome, type TurnResult } from "../domain/turn-result.ts";

/** Turns that failed or expired, by the failure's code, each with what the first of them said; the most frequent first. */
export const Failures = z.record(
  z.string(),
  z.object({ turns: z.number().int().nonnegative(), first: z.string(), message: z.string() }),
);
export type Failures = z.infer<typeof Failures>;

/** What a turn that failed ends in. */
export const FAILED: readonly Outcome[] = ["failed", "expired"];

/** Of a failure's message, in characters. */
const MESSAGE_CHARS = 300;

/** Counts why turns failed, in memory that grows with the codes only, of which there are few. */
export class FailureTally {
  readonly #codes = new Map<string, { turns: number; readonly first: string; readonly message: string }>();

  add({ status, failure, error, turn }: Pick<TurnResult, "status" | "failure" | "error" | "turn">): void {
    if (!FAILED.includes(outcomeOf(status))) return;
    const code = failure?.code ?? status;
    const same = this.#codes.get(code);
    if (same !== undefined) same.turns += 1;
    else {
      const message = cutText(failure?.message ?? error ?? "", MESSAGE_CHARS);
      this.#codes.set(code, { turns: 1, first: turn, message });
    }
  }

  get failures(): Failures {
    return Object.fromEntries([...this.#codes].toSorted(([, a], [, b]) => b.turns - a.turns));
  }
}
