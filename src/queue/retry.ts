import { randomUUID } from "node:crypto";
import { TurnqError } from "../domain/error.ts";
import { jobId, laneTag } from "../ledger/keys.ts";
import { commandOf } from "../ledger/scripts.ts";
import type { Lane } from "./lane-set.ts";
import { jobOf } from "./submit-chunk.ts";
import { sendTogether } from "./transaction.ts";

/** What a retry of one turn did. */
export type Retried = { readonly kind: "opened"; readonly generation: number } | { readonly kind: "not_settled" };

/** Opens a new generation of a settled turn and adds its job, in one MULTI. Throws `not_found`. */
export async function retryTurn(lane: Lane, turn: string): Promise<Retried> {
  const [row, [request]] = await Promise.all([lane.ledger.row(turn), lane.ledger.requests([turn])]);
  if (row === undefined || request === undefined)
    throw new TurnqError("not_found", "there is no such turn", { where: `turn ${turn}` });
  if (row.state !== "settled") return { kind: "not_settled" };
  const { backend } = lane.queue;
  const tag = laneTag(lane.name);
  const generation = row.generation + 1;
  const job = jobId(turn, generation);
  const args = [tag, turn, row.generation, job, randomUUID()];
  // Should another retry have been first, the job is there already, and adding it changes nothing.
  const [kind] = (await sendTogether(lane, "multi:retry", (to) => {
    void to.runCommand(commandOf("retry"), args);
    void backend.addJobToTransaction(to, jobOf(request, generation), job);
    if (request.session !== undefined) void to.runCommand(commandOf("wake"), [tag, request.session]);
  })) as [string];
  return kind === "opened" ? { kind: "opened", generation } : { kind: "not_settled" };
}
