import { TurnqError, messageOf } from "../domain/error.ts";
import { Id } from "../domain/id.ts";
import { cutText } from "../domain/text.ts";
import type { TurnRequest } from "../domain/turn-request.ts";
import type { CellOptions, CellRequest, Sample } from "./cells.ts";
import { cellsOf, checkCellOptions, readSample, refuseFaulty } from "./cells.ts";
import { csvEntries } from "./csv-entries.ts";
import { parseExactly } from "./exact-json.ts";
import { readLines } from "./lines.ts";
import type { Line } from "./lines.ts";
import { problemText } from "./line-problem.ts";
import type { LineProblem } from "./line-problem.ts";
import type { Problem } from "../parse/problem.ts";
import { SeenIds } from "./seen.ts";

/** Gives the bytes of the input from the start, as often as it is called. */
export type OpenInput = () => AsyncIterable<Uint8Array>;

/** An agent, and a lane in which turns of it are. */
export interface TurnPlace {
  readonly agent: string;
  readonly lane: string;
}

/** What a check of a whole input found. */
export interface InputReport {
  /** Lines read, blank ones counted. */
  readonly lines: number;
  readonly samples: number;
  readonly turns: number;
  /** Whose the turns are, and the lanes that they would go to, as far as those are known: each pair once. */
  readonly places: readonly TurnPlace[];
  /** Lines with a problem. */
  readonly bad: number;
  /** All that is wrong with the first {@link BAD_LINES_SHOWN} of them. */
  readonly problems: readonly LineProblem[];
}

/** How many bad lines are told of one by one. */
export const BAD_LINES_SHOWN = 100;

/**
 * Reads every line once and stores nothing. Throws {@link TurnqError}: `no_turns` when there is
 * nothing to do, and for options that cannot be right; errors of the source as they are. Memory is
 * bounded but for the ids, about 100 bytes for a line that has one.
 */
export async function checkInput(open: OpenInput, options: CellOptions): Promise<InputReport> {
  checkCellOptions(options);
  const problems: LineProblem[] = [];
  const places = new Map<string, TurnPlace>();
  let [lines, samples, turns, bad] = [0, 0, 0, 0];
  for await (const item of samplesOf(entriesOf(open(), options), options, "line")) {
    lines = item.line;
    if (item.problems !== undefined) {
      bad += 1;
      if (bad > BAD_LINES_SHOWN) continue;
      for (const problem of item.problems) problems.push({ line: item.line, ...problem });
    } else if (item.requests.length > 0) {
      samples += 1;
      turns += item.requests.length * options.epochs;
      for (const request of item.requests) {
        const { agent } = request;
        const lane = options.directory.lane?.(agent, request) ?? request.lane ?? agent;
        places.set(`${agent} ${lane}`, { agent, lane });
      }
    }
  }
  if (bad === 0 && turns === 0) throw noTurns(options);
  return { lines, samples, turns, places: [...places.values()], bad, problems };
}

function noTurns(options: CellOptions): TurnqError {
  const why = options.sample === undefined ? "" : `: no line has the sample "${cutText(options.sample, 200)}"`;
  return new TurnqError("no_turns", `no turns${why}`);
}

/** What to print about the problems of an input: a line for each, and how many bad lines more there are. */
export function problemLines(report: Pick<InputReport, "problems" | "bad">): string[] {
  const shown = report.problems.map((problem) => problemText(problem));
  const more = report.bad - BAD_LINES_SHOWN;
  return more <= 0 ? shown : [...shown, `and ${more} more bad ${more === 1 ? "line" : "lines"}`];
}

/**
 * The turns of an input that {@link checkInput} found nothing wrong with, as they are read. Throws
 * {@link TurnqError} `invalid_input` at a line that is wrong now: the file has changed.
 */
export async function* requestsOf(open: OpenInput, options: CellOptions): AsyncGenerator<CellRequest, void, undefined> {
  checkCellOptions(options);
  yield* cellsOrThrow(samplesOf(entriesOf(open(), options), options, "line"), options, "line");
}

/**
 * The turns of a program's objects (each a request without its batch), checked one by one as they
 * come. Throws {@link TurnqError} `invalid_input` at the first that is wrong; those before it have been given.
 */
export async function* requestsOfObjects(
  objects: AsyncIterable<unknown> | Iterable<unknown>,
  options: CellOptions,
): AsyncGenerator<CellRequest, void, undefined> {
  checkCellOptions(options);
  yield* cellsOrThrow(samplesOf(numbered(objects), options, "item"), options, "item");
}

async function* cellsOrThrow(
  items: AsyncIterable<Item>,
  options: CellOptions,
  unit: Unit,
): AsyncGenerator<CellRequest, void, undefined> {
  for await (const item of items) {
    if (item.problems === undefined) {
      refuseFaulty(new Set(item.requests.map(({ agent }) => agent)), options.directory);
      yield* cellsOf(item.id, item.requests, options);
    } else {
      const texts = item.problems.map((problem) => problemText({ line: item.line, ...problem }, unit));
      throw new TurnqError("invalid_input", texts.join("; "), { details: { line: item.line } });
    }
  }
}

/** What the entries of an input are called: lines of a file or items of a program. */
type Unit = "line" | "item";

/** A value of the input, or why there is none. `text` is the line that it was parsed from. */
type Entry =
  | {
      readonly number: number;
      readonly value: unknown;
      readonly text?: string | undefined;
      readonly problem?: undefined;
    }
  | { readonly number: number; readonly problem: string };

async function* entriesOf(
  source: AsyncIterable<Uint8Array>,
  { format, map }: CellOptions,
): AsyncGenerator<Entry, void, undefined> {
  if (format === "csv") {
    yield* csvEntries(source, map);
    return;
  }
  for await (const line of readLines(source)) yield line.problem === undefined ? parseLine(line) : line;
}

function parseLine(line: Extract<Line, { text: string }>): Entry {
  const { number, text } = line;
  try {
    return { number, text, value: parseExactly(text) };
  } catch (error) {
    return { number, problem: `is not valid JSON: ${cutText(messageOf(error), 200)}` };
  }
}

async function* numbered(objects: AsyncIterable<unknown> | Iterable<unknown>): AsyncGenerator<Entry, void, undefined> {
  let number = 0;
  for await (const value of objects) yield { number: (number += 1), value };
}

type Item =
  | {
      readonly line: number;
      readonly id: string;
      readonly requests: readonly TurnRequest[];
      readonly problems?: undefined;
    }
  | { readonly line: number; readonly problems: readonly Problem[] };

/** The samples that were asked for, and whatever is wrong with any line that was read. */
async function* samplesOf(
  entries: AsyncIterable<Entry>,
  options: CellOptions,
  unit: Unit,
): AsyncGenerator<Item, void, undefined> {
  const seen = new SeenIds();
  const lanes = new Map<string, { lane: string; line: number }>();
  let left = options.limit ?? Number.POSITIVE_INFINITY;
  for await (const entry of entries) {
    const line = entry.number;
    if (entry.problem !== undefined) {
      yield { line, problems: [{ message: entry.problem }] };
      continue;
    }
    const sample = readSample(entry.value, line, options, entry.text);
    const problems = [
      ...(sample.problems ?? []),
      ...clashes(sample, line, seen, unit),
      ...laneClashes(sample, line, lanes, options, unit),
    ];
    if (problems.length > 0 || sample.problems !== undefined) yield { line, problems };
    else if (options.sample === undefined || options.sample === sample.id) {
      yield { line, id: sample.id, requests: sample.requests };
      left -= 1;
    } else yield { line, id: sample.id, requests: [] };
    if (left <= 0) return;
  }
}

function clashes(sample: Sample, line: number, seen: SeenIds, unit: Unit): Problem[] {
  if (sample.id === undefined || !Id.safeParse(sample.id).success) return [];
  const earlier = seen.add(sample.id, line, sample.id !== String(line));
  if (earlier === undefined) return [];
  return [{ field: "id", message: `the id "${sample.id}" is already on ${unit} ${earlier}` }];
}

/** A session's turns run in order, which only one lane can keep. */
function laneClashes(
  sample: Sample,
  line: number,
  lanes: Map<string, { lane: string; line: number }>,
  options: CellOptions,
  unit: Unit,
): Problem[] {
  for (const request of sample.requests ?? []) {
    const lane = options.directory.lane?.(request.agent, request);
    if (request.session === undefined || lane === undefined) continue;
    // Each agent has a session of its own of this name.
    const name = `${request.agent} ${request.session}`;
    const bound = lanes.get(name);
    if (bound === undefined) lanes.set(name, { lane, line });
    else if (bound.lane !== lane) {
      const message = `the session "${request.session}" is on lane "${bound.lane}" (${unit} ${bound.line}) and cannot be on "${lane}" too`;
      return [{ field: "session", message }];
    }
  }
  return [];
}
