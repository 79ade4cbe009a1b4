import { z } from "zod";

/** Where a turn is. */
export const TurnState = z.enum(["delayed", "waiting", "parked", "running", "stopping", "settled"]);
export type TurnState = z.infer<typeof TurnState>;

/** What moves a turn from one state to another. */
export type Move = "wake" | "begin" | "stop" | "back_off" | "hand_back" | "settle" | "retry";

/**
 * The one transition table: from a state, by a move, to what states. The scripts of the ledger
 * make these transitions and no others; a test drives each script from every state against it.
 */
export const TRANSITIONS: Readonly<Record<TurnState, Readonly<Partial<Record<Move, readonly TurnState[]>>>>> = {
  delayed: { wake: ["waiting"], begin: ["running"], settle: ["settled"] },
  waiting: { begin: ["running"], settle: ["settled"] },
  parked: { wake: ["waiting", "delayed"], begin: ["running"], settle: ["settled"] },
  running: { stop: ["stopping"], back_off: ["delayed"], hand_back: ["waiting"], settle: ["settled"] },
  // Nothing follows a cancel: only what a shutdown stops goes on.
  stopping: { back_off: ["delayed"], hand_back: ["waiting"], settle: ["settled"] },
  settled: { retry: ["waiting", "parked"] },
};

/** The states that a turn may be submitted into. */
export const FIRST_STATES: readonly TurnState[] = ["waiting", "parked", "delayed"];

/** True when the table allows the step. */
export function mayMove(from: TurnState, move: Move, to: TurnState): boolean {
  return TRANSITIONS[from][move]?.includes(to) ?? false;
}
