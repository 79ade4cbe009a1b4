import { randomUUID } from "node:crypto";
import { TurnqError } from "../domain/error.ts";
import { jobId } from "../ledger/keys.ts";
import type { Lane } from "./lane-set.ts";
import { jobOf } from "./submit-chunk.ts";

/** What a retry of one turn did. */
export type Retried = { readonly kind: "opened"; readonly generation: number } | { readonly kind: "not_settled" };

/**
 * Opens a new generation of a settled turn and adds its job. Should the process die between the
 * two, asking again adds the job. Throws `not_found`.
 */
export async function retryTurn(lane: Lane, turn: string): Promise<Retried> {
  const [row, [request]] = await Promise.all([lane.ledger.row(turn), lane.ledger.requests([turn])]);
  if (row === undefined || request === undefined)
    throw new TurnqError("not_found", "there is no such turn", { where: `turn ${turn}` });
  const answer = await lane.ledger.openGeneration(turn, row.generation, randomUUID());
  if (answer.kind === "missing") throw new TurnqError("not_found", "there is no such turn", { where: `turn ${turn}` });
  const { generation } = answer;
  const current = answer.kind === "opened" ? jobId(turn, generation) : row.job;
  // The job of a turn that is open is there already, and adding it changes nothing, unless a retry died half-way.
  if (current === jobId(turn, generation)) {
    await lane.queue.backend.addJob(jobOf(request, generation), current);
    if (request.session !== undefined) await lane.ledger.wake([request.session]);
  }
  return answer.kind === "opened" ? { kind: "opened", generation } : { kind: "not_settled" };
}
