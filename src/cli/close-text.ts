import type { ClosePhase, CloseReport } from "../queue/worker.ts";
import { counted } from "./quantity-text.ts";

/** What a command says when a phase of its worker's shutdown begins; undefined for one that it has announced itself. */
export function phaseText({ phase, running }: ClosePhase): string | undefined {
  if (phase === "stopping") return undefined;
  return `${counted(running, "attempt")} did not stop: killed, to be handed back`;
}

/** What a command says of attempts that its worker could not hand back; undefined when there are none. */
export function abandonedText({ abandoned, turns }: CloseReport): string | undefined {
  if (abandoned === 0) return undefined;
  const more = abandoned > turns.length ? `, and ${abandoned - turns.length} more` : "";
  const what = `${counted(abandoned, "attempt")} did not end in time; the next worker finds them lost and goes on`;
  return `${what}: ${turns.join(", ")}${more}`;
}
