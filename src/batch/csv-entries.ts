import { Readable } from "node:stream";
import { parse, type CsvError, type Info } from "csv-parse";
import { messageOf, TurnqError } from "../domain/error.ts";
import { CsvPlace } from "./csv-place.ts";
import { LINE_MAX_BYTES } from "./lines.ts";
import type { Mapping } from "./mapping.ts";

/** A row of CSV as an object by its header, with the line that it ends on; or why it cannot be read, with the line that it starts on. */
export type CsvEntry =
  | { readonly number: number; readonly value: Readonly<Record<string, unknown>>; readonly problem?: undefined }
  | { readonly number: number; readonly problem: string };

/** Columns that are texts of a turn as they are. */
const TEXTS: ReadonlySet<string> = new Set(["id", "agent", "input", "session", "lane", "target"]);

/** A row as the parser gives it, and the line that it ends on. */
interface Row {
  readonly record: Readonly<Record<string, string>>;
  readonly line: number;
}

/**
 * The rows of CSV with a header row, in UTF-8, with or without a byte order mark. With a `map` the columns stay as they
 * are. Else `metadata` is a cell of JSON, and a column that is no text of a turn belongs to the metadata. An empty cell
 * is no value, but for the input's: that is an input, an empty one. Holds one row in memory.
 */
export async function* csvEntries(
  source: AsyncIterable<Uint8Array>,
  map?: Mapping,
): AsyncGenerator<CsvEntry, void, undefined> {
  const bad: CsvEntry[] = [];
  const place = new CsvPlace();
  const read = { badLine: 0, tooLong: false };
  const text = Readable.from(utf8Text(source, read));
  const rows = text.pipe(
    parse({
      bom: true,
      columns: headerOf,
      info: true,
      skip_empty_lines: true,
      skip_records_with_error: true,
      max_record_size: LINE_MAX_BYTES,
      cast: (cell, context) => {
        place.cellEnded(cell, context);
        return cell;
      },
      on_record: ({ record }: { readonly record: Record<string, string>; readonly info: Info }): Row => ({
        record,
        line: place.endLine,
      }),
      on_skip: (error: CsvError | undefined) => {
        // The parser tells of a row for each fault in it; after one that is too long it has lost its place.
        const line = place.startLine(error);
        if (!read.tooLong && line !== read.badLine) bad.push({ number: line, problem: rowProblem(error) });
        read.badLine = line;
        read.tooLong ||= error?.code === "CSV_MAX_RECORD_SIZE";
        return undefined;
      },
    }),
  );
  // A pipe hands on what was read, and not what went wrong.
  text.once("error", (error) => rows.destroy(error));
  try {
    for await (const { record, line } of rows as AsyncIterable<Row>) {
      yield* bad.splice(0);
      yield rowEntry(record, line, map);
    }
  } catch (error) {
    if (!(error instanceof BadText) && !(error instanceof TurnqError)) throw error;
    bad.push({ number: 1, problem: error.message });
  } finally {
    text.destroy();
    rows.destroy();
  }
  yield* bad;
}

class BadText extends Error {}

/** The parser's own words name a line too, which is another one where cells have line ends in them. */
function rowProblem(error: CsvError | undefined): string {
  const column = typeof error?.column === "string" ? `, field "${error.column}"` : "";
  switch (error?.code as string | undefined) {
    case "CSV_MAX_RECORD_SIZE":
      return "the row is longer than 8 MB (is a quote of it never closed?); nothing after it was read";
    case "CSV_QUOTE_NOT_CLOSED":
      return "the row has a quote that is never closed";
    case "INVALID_OPENING_QUOTE":
      return `the row has a quote inside a cell that does not begin with one${column}; quote the whole cell and double the quotes in it`;
    case "CSV_INVALID_CLOSING_QUOTE":
      return `the row has a quoted cell that goes on behind its closing quote${column}; double the quotes inside it`;
    case "CSV_RECORD_INCONSISTENT_COLUMNS":
      return `the row has ${cells(error?.["record"])}, and the header ${cells(error?.["columns"])}`;
    default:
      return messageOf(error?.message ?? "cannot be read");
  }
}

function cells(row: unknown): string {
  const count = Array.isArray(row) ? row.length : 0;
  return `${count} ${count === 1 ? "cell" : "cells"}`;
}

async function* utf8Text(
  source: AsyncIterable<Uint8Array>,
  read: { readonly tooLong: boolean },
): AsyncGenerator<string> {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  try {
    for await (const chunk of source) {
      if (read.tooLong) return;
      yield decoder.decode(chunk, { stream: true });
    }
    yield decoder.decode();
  } catch (error) {
    throw error instanceof TypeError ? new BadText("the file is not valid UTF-8", { cause: error }) : error;
  }
}

/** Throws {@link BadText} for a header that names a column twice, not at all, or as no column can be named. */
function headerOf(names: readonly string[]): string[] {
  const clean = names.map((name) => name.trim());
  const twice = clean.find((name, i) => clean.indexOf(name) < i);
  if (twice !== undefined) throw new BadText(`the header has the column "${twice}" twice`);
  // An object that a parser builds cell by cell cannot have it.
  if (clean.includes("__proto__")) throw new BadText('a column cannot be named "__proto__"');
  if (clean.includes("")) throw new BadText("the header has a column without a name");
  return clean;
}

function rowEntry(record: Row["record"], number: number, map: Mapping | undefined): CsvEntry {
  const input = map?.get("input") ?? "input";
  const cells = Object.entries(record).filter(([name, cell]) => cell !== "" || name === input);
  if (map !== undefined) return { number, value: Object.fromEntries(cells) };
  const value: Record<string, unknown> = {};
  let metadata: Record<string, unknown> = {};
  for (const [name, cell] of cells) {
    if (TEXTS.has(name)) value[name] = cell;
    else if (name === "metadata") {
      const said = jsonObject(cell);
      if (said === undefined) return { number, problem: "field metadata: must be a JSON object" };
      metadata = { ...said, ...metadata };
    } else metadata[name] = name === "choices" ? cell.split(",").map((choice) => choice.trim()) : cell;
  }
  return { number, value: Object.keys(metadata).length === 0 ? value : { ...value, metadata } };
}

function jsonObject(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}
