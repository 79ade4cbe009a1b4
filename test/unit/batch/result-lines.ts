import type { ResultLine } from "../../../src/batch/result-line.ts";
import { resultLine } from "../../../src/batch/result-line.ts";
import type { StoredRequest } from "../../../src/domain/turn-request.ts";
import type { TurnResult } from "../../../src/domain/turn-result.ts";
import { NO_USAGE } from "../../../src/domain/usage.ts";

export function result(): TurnResult {
  return {
    v: 1,
    turn: "b1:s1:echo:1",
    generation: 1,
    agent: "echo",
    output: "hello",
    messages: [],
    usage: { ...NO_USAGE },
    ok: true,
    status: "completed",
    stepsUsed: 0,
    cancelled: false,
    budgetExhausted: false,
    planSteps: [],
    attempts: [],
    wastedUsage: { ...NO_USAGE },
    startedAt: 0,
    endedAt: 0,
    durationMs: 0,
    queuedMs: 0,
  };
}

type Asked = Pick<StoredRequest, "batch" | "agent" | "target" | "metadata" | "expect">;

export function request(changes: Partial<Asked> = {}): Asked {
  return { agent: "echo", batch: { id: "b1", sample: "s1", epoch: 1 }, ...changes };
}

/** A result line of the batch `b1` with some of its facts. */
export function line(changes: Partial<ResultLine> = {}): ResultLine {
  return { ...resultLine(request(), result()), ...changes };
}

/** The line of the cell of `sample`. */
export function lineOf(sample: string, output = "hello"): ResultLine {
  return line({ turn: `b1:${sample}:echo:1`, sample, output });
}
