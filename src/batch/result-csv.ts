import { stringify } from "csv-stringify/sync";
import type { ResultLine } from "./result-line.ts";

/** The columns of results as CSV, in their order. */
export const RESULT_COLUMNS = [
  "turn",
  "batch",
  "sample",
  "epoch",
  "agent",
  "status",
  "ok",
  "passed",
  "score",
  "output",
  "truncated",
  "error",
  "target",
  "attempts",
  "input_tokens",
  "output_tokens",
  "cache_read_tokens",
  "cost_usd",
  "usage_known",
  "duration_ms",
  "queued_ms",
  "metadata",
] as const;

/** The first line of results as CSV, without its end. */
export function resultCsvHead(): string {
  return csvLine(RESULT_COLUMNS);
}

/** A result line as a line of CSV, without its end. What is absent is an empty cell; what is no text or number is JSON. */
export function resultCsv(line: ResultLine): string {
  const { usage, score } = line;
  return csvLine([
    line.turn,
    line.batch,
    line.sample,
    line.epoch,
    line.agent,
    line.status,
    line.ok,
    score?.passed,
    score?.value,
    line.output,
    line.truncated?.join(" "),
    line.error,
    line.target,
    line.attempts.length,
    usage.inputTokens,
    usage.outputTokens,
    usage.cacheReadTokens,
    usage.costUsd,
    usage.known,
    line.durationMs,
    line.queuedMs,
    line.metadata,
  ]);
}

function csvLine(cells: readonly unknown[]): string {
  return stringify([cells.map(cellOf)], { record_delimiter: "\n" }).slice(0, -1);
}

/**
 * Outputs are hostile: a text that a spreadsheet would take for a formula gets an apostrophe before it.
 */
function cellOf(value: unknown): string {
  if (value === undefined || value === null) return "";
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
}
