import { z } from "zod";
import { Score } from "../domain/check.ts";
import { TurnqError } from "../domain/error.ts";
import { JsonObject } from "../domain/json.ts";
import type { Message } from "../domain/message.ts";
import type { StoredRequest } from "../domain/turn-request.ts";
import { Target } from "../domain/turn-request.ts";
import { TurnResult } from "../domain/turn-result.ts";
import { scoreOf } from "./score.ts";

const { messages, elsewhere: _cut, score: _optional, turn, agent, ...facts } = TurnResult.shape;

/** One line of results: a settled cell, what it was asked and what came of it. `messages` only where they were asked for. */
export const ResultLine = z
  .object({
    type: z.literal("result"),
    turn,
    batch: z.string(),
    sample: z.string(),
    epoch: z.number().int().min(1),
    agent,
    target: Target.optional(),
    metadata: JsonObject.optional(),
    score: Score.nullable(),
    ...facts,
    messages: messages.optional(),
  })
  .refine((line) => line.ok === (line.error === undefined), "`error` is set if and only if `ok` is false");
export type ResultLine = z.infer<typeof ResultLine>;

/**
 * The line of a settled cell. `messages` are the turn's when lines are to hold them: a Result whose
 * messages are kept apart does not have them itself. A Result without a score is scored here.
 */
export function resultLine(
  request: Pick<StoredRequest, "batch" | "agent" | "target" | "metadata" | "expect">,
  result: TurnResult,
  options: { readonly messages?: readonly Message[] | undefined } = {},
): ResultLine {
  if (request.batch === undefined) throw new TurnqError("internal", `the turn ${result.turn} is in no batch`);
  const { messages: _own, elsewhere: _cut, score, turn: id, agent: name, ...rest } = result;
  return {
    type: "result",
    turn: id,
    batch: request.batch.id,
    sample: request.batch.sample,
    epoch: request.batch.epoch,
    agent: name,
    ...(request.target === undefined ? {} : { target: request.target }),
    ...(request.metadata === undefined ? {} : { metadata: request.metadata }),
    score: score === undefined ? scoreOf(request, result) : score,
    ...rest,
    ...(options.messages === undefined ? {} : { messages: [...options.messages] }),
  };
}
