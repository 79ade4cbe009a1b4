/** What a list should show of a job. Whole, one page of long turns would be megabytes. */

const SHOWN_CHARS = 300;

type Fields = Readonly<Record<string, unknown>>;

/** A job's data: the start of the input, and of each crashed attempt why it crashed and what it cost. */
export function shownData(data: unknown): unknown {
  if (!isFields(data)) return data;
  const { v: _version, input, crashed, ...rest } = data;
  return { ...rest, input: start(input), crashed: listOf(crashed).map(shownCrash) };
}

function shownCrash(record: unknown): unknown {
  if (!isFields(record)) return record;
  const { attempt, status, crashReason, usage, durationMs } = record;
  return { attempt, status, crashReason, usage, durationMs };
}

/** A TurnResult: how it ended, the start of the output, and what it cost. The messages stay where they are. */
export function shownReturnValue(value: unknown): unknown {
  if (!isFields(value)) return value;
  const { status, ok, generation, output, error, failure, score, usage, wastedUsage, attempts, durationMs } = value;
  return {
    status,
    ok,
    generation,
    output: start(output),
    error,
    failure: isFields(failure) ? failure["code"] : undefined,
    score,
    usage,
    wastedUsage,
    attempts: listOf(attempts).map((attempt) => (isFields(attempt) ? attempt["status"] : attempt)),
    durationMs,
  };
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function start(text: unknown): unknown {
  return typeof text === "string" && text.length > SHOWN_CHARS ? `${text.slice(0, SHOWN_CHARS).toWellFormed()}…` : text;
}
