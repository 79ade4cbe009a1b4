import { Readable } from "node:stream";
import { parse, type CsvError, type Info } from "csv-parse";
import { messageOf, TurnqError } from "../domain/error.ts";
import { LINE_MAX_BYTES } from "./lines.ts";

/** A row of CSV as an object by its header, or why it cannot be read. `number` is the line that it ends on. */
export type CsvEntry =
  | { readonly number: number; readonly value: Readonly<Record<string, unknown>>; readonly problem?: undefined }
  | { readonly number: number; readonly problem: string };

/** Columns that are texts of a turn as they are. */
const TEXTS: ReadonlySet<string> = new Set(["id", "agent", "input", "session", "lane", "target"]);

/**
 * The rows of CSV with a header row, in UTF-8, with or without a byte order mark. `flat`: the columns are to be mapped,
 * so that they stay as they are. Else `metadata` is a cell of JSON, and a column that is no text of a turn belongs to the
 * metadata. An empty cell is no value. Holds one row in memory.
 */
export async function* csvEntries(
  source: AsyncIterable<Uint8Array>,
  flat: boolean,
): AsyncGenerator<CsvEntry, void, undefined> {
  const bad: CsvEntry[] = [];
  const read = { line: 0, badLine: 0, tooLong: false };
  const text = Readable.from(utf8Text(source, read));
  const rows = text.pipe(
    parse({
      bom: true,
      columns: (names: readonly string[]) => {
        read.line = names.join("").split("\n").length;
        return headerOf(names);
      },
      info: true,
      skip_empty_lines: true,
      skip_records_with_error: true,
      max_record_size: LINE_MAX_BYTES,
      on_record: (row: { readonly info: Info }) => {
        read.line = row.info.lines;
        return row;
      },
      on_skip: (error: CsvError | undefined) => {
        // The parser tells of a row for each fault in it; after one that is too long it has lost its place.
        const line = Number(error?.lines ?? read.line + 1);
        if (!read.tooLong && line !== read.badLine) bad.push(badRow(error, read.line + 1));
        read.badLine = line;
        read.line = Math.max(read.line, line);
        read.tooLong ||= error?.code === "CSV_MAX_RECORD_SIZE";
        return undefined;
      },
    }),
  );
  // A pipe hands on what was read, and not what went wrong.
  text.once("error", (error) => rows.destroy(error));
  try {
    for await (const { record, info } of rows as AsyncIterable<{ record: Record<string, string>; info: Info }>) {
      yield* bad.splice(0);
      yield rowEntry(record, info.lines, flat);
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

const TOO_LONG = "the row is longer than 8 MB (is a quote of it never closed?); nothing after it was read";

/** `startsOn` is the line on which the row starts, or an earlier one where blank lines are before it. */
function badRow(error: CsvError | undefined, startsOn: number): CsvEntry {
  switch (error?.code) {
    case "CSV_MAX_RECORD_SIZE":
      return { number: startsOn, problem: TOO_LONG };
    case "CSV_QUOTE_NOT_CLOSED":
      return { number: startsOn, problem: "the row has a quote that is never closed" };
    default:
      return { number: Number(error?.lines ?? startsOn), problem: messageOf(error?.message ?? "cannot be read") };
  }
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

function rowEntry(record: Readonly<Record<string, string>>, number: number, flat: boolean): CsvEntry {
  const cells = Object.entries(record).filter(([, cell]) => cell !== "");
  if (flat) return { number, value: Object.fromEntries(cells) };
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
