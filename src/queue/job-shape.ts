import type { StoredRequest } from "../domain/turn-request.ts";
import type { TurnRecord } from "../domain/turn-record.ts";
import type { TurnResult } from "../domain/turn-result.ts";
import { cutText, tailText } from "../domain/text.ts";
import { textOf } from "../domain/message.ts";

/** What a BullMQ tool sees of a turn. Nothing of ours trusts it: the ledger's row and request decide. */
export interface JobData {
  readonly v: 1;
  readonly turn: string;
  readonly agent: string;
  readonly session?: string;
  readonly batch?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly input: string;
  readonly crashed: readonly object[];
}

const INPUT_CHARS = 2048;
const RECORD_CHARS = 4096;
const OUTPUT_TAIL_CHARS = 500;
/** How many crashed attempts a job shows, the last ones. */
export const MAX_CRASHED = 20;
const MESSAGES_CHARS = 4096;
const OUTPUT_CHARS = 16_384;

/** The data of a turn's job. `crashed` are the attempts that left a partial record, as `shownRecord` made them. */
export function jobData(request: StoredRequest, crashed: readonly object[] = []): JobData {
  return {
    v: 1,
    turn: request.id,
    agent: request.agent,
    ...(request.session === undefined ? {} : { session: request.session }),
    ...(request.batch === undefined ? {} : { batch: request.batch.id }),
    ...(request.labels === undefined ? {} : { labels: request.labels }),
    input: cutText(textOf(request.input), INPUT_CHARS),
    crashed: crashed.slice(-MAX_CRASHED),
  };
}

/** A record whole up to 4 KB, above that its summary with the end of its output. */
export function shownRecord(record: TurnRecord): object {
  if (JSON.stringify(record).length <= RECORD_CHARS) return record;
  const { v, attempt, iteration, agent, status, crashed, crashReason, usage, startedAt, endedAt, durationMs } = record;
  return {
    v,
    attempt,
    iteration,
    agent,
    status,
    crashed,
    crashReason,
    usage,
    startedAt,
    endedAt,
    durationMs,
    steps: record.steps.length,
    output: tailText(record.output, OUTPUT_TAIL_CHARS),
    cut: true,
  };
}

/**
 * The TurnResult as the job's return value. BullMQ copies it into its event stream, so that long
 * messages and a long output stay in the ledger and `elsewhere` says how much there is.
 */
export function returnValue(result: TurnResult): TurnResult {
  const longMessages = JSON.stringify(result.messages).length > MESSAGES_CHARS;
  const longOutput = result.output.length > OUTPUT_CHARS;
  if (!longMessages && !longOutput) return result;
  return {
    ...result,
    ...(longMessages ? { messages: [] } : {}),
    ...(longOutput ? { output: cutText(result.output, OUTPUT_CHARS) } : {}),
    elsewhere: {
      ...(longMessages ? { messages: result.messages.length } : {}),
      ...(longOutput ? { outputChars: result.output.length } : {}),
    },
  };
}
