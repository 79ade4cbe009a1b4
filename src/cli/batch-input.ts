import { addAbortSignal, Readable } from "node:stream";
import { join } from "node:path";
import { checkInput, problemLines, requestsOf, type InputReport, type OpenInput } from "../batch/input.ts";
import { refuseFaulty, type CellOptions, type CellRequest, type InputFormat } from "../batch/cells.ts";
import type { Mapping } from "../batch/mapping.ts";
import { openInput, type ReadableInput } from "../batch/spool.ts";
import type { CheckType } from "../domain/check.ts";
import { TurnqError } from "../domain/error.ts";
import type { Turnq } from "../turnq.ts";
import type { CommandContext } from "./context.ts";
import type { OpenStore } from "./open-store.ts";
import { counted } from "./quantity-text.ts";

/** Options of a command that takes a file of turns: `run` and `submit`. */
export interface InputOptions {
  readonly agent?: readonly string[] | undefined;
  readonly epochs: number;
  readonly map?: Mapping | undefined;
  /** By the name of the file unless given. */
  readonly inputFormat?: InputFormat | undefined;
  readonly expect?: CheckType | undefined;
  readonly limit?: number | undefined;
  readonly sample?: string | undefined;
  readonly timeout?: number | undefined;
  readonly lane?: string | undefined;
  readonly batch?: string | undefined;
  readonly config?: string | undefined;
  readonly json?: boolean | undefined;
  readonly quiet?: boolean | undefined;
}

/** How many turns are compared with the store at once. */
const COMPARE_TURNS = 100;
/** How many conflicts are named. */
const CONFLICTS_SHOWN = 5;

/** Opens the file, or keeps stdin for `-` in a file of its own. Aborted it throws. The caller removes it. */
export async function openTurns(context: CommandContext, path: string, signal: AbortSignal): Promise<ReadableInput> {
  const { stdin, cwd, output } = context;
  if (path === "-" && stdin.isTTY === true)
    output.note("Reading turns from the terminal, one JSON object a line; end with Ctrl-D.");
  // A stream that nobody reads must not be touched: it would keep the process alive.
  const source = path === "-" ? addAbortSignal(signal, stdin) : Readable.from([]);
  const input = await openInput(path, { stdin: source, spoolDir: join(cwd, ".turnq", "tmp"), cwd });
  return { ...input, open: () => untilAborted(input.open, signal) };
}

async function* untilAborted(open: OpenInput, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  for await (const chunk of open()) {
    signal.throwIfAborted();
    yield chunk;
  }
}

/** How the input's lines become turns of this batch. `runsHere`: they are run by this process, not only stored. */
export function cellOptions(
  store: OpenStore,
  batch: string,
  file: string,
  options: InputOptions & { readonly runsHere?: boolean },
): CellOptions {
  const agents = options.agent ?? onlyAgent(store);
  return {
    batch,
    agents,
    epochs: options.epochs,
    expect: options.expect,
    map: options.map,
    format: options.inputFormat ?? (/\.csv$/i.test(file) ? "csv" : "jsonl"),
    limit: options.limit,
    sample: options.sample,
    timeoutMs: options.timeout,
    lane: options.lane,
    directory: store.turnq.agentDirectory(agents, { runsHere: options.runsHere === true }),
  };
}

/** The agent of a configuration that has just one. */
function onlyAgent({ config }: OpenStore): readonly string[] {
  const names = Object.keys(config.agents);
  return names.length === 1 ? names : [];
}

/**
 * Checks every line, and that no turn of them is stored with other content; stores nothing. Throws
 * `no_turns`, `unknown_agent`, `config`, `batch_conflict`; `invalid_input` with all the lines that are wrong.
 */
export async function checkTurns(
  turnq: Turnq,
  input: ReadableInput,
  cells: CellOptions,
  signal: AbortSignal,
): Promise<InputReport> {
  // What a module's agent can do is known once it was loaded: then what it cannot is refused here.
  await turnq.learnAgents(cells.agents.length === 0 ? undefined : cells.agents);
  const report = await checkInput(input.open, cells);
  if (report.problems.length > 0) throw badLines(report, cells);
  // Those that lines name; --agent was looked at before any line was.
  refuseFaulty(new Set(report.places.map(({ agent }) => agent)), cells.directory);
  if (await turnq.batch(cells.batch).exists()) await checkConflicts(turnq, input, cells, signal);
  if (await input.changed()) throw changedInput("Nothing was stored. Try again when nobody writes to it.");
  return report;
}

function changedInput(hint: string, cause?: unknown): TurnqError {
  return new TurnqError("file", "the input was changed while it was read", { hint, cause });
}

function badLines(report: InputReport, cells: CellOptions): TurnqError {
  const known = cells.directory.namesToTell?.() ?? cells.directory.names();
  const nameOne = `Name agents with --agent; known are ${known.slice(0, 20).join(", ")}.`;
  const unnamed = report.problems.filter(({ field, message }) => field === "agent" && message.startsWith("is missing"));
  if (unnamed.length === report.problems.length)
    throw new TurnqError("invalid_request", "no agent is named", { hint: nameOne });
  const lines = [`${counted(report.bad, "bad line")} in the input, nothing was queued`, ...problemLines(report)];
  return new TurnqError("invalid_input", lines.join("\n"), { hint: unnamed.length > 0 ? nameOne : undefined });
}

async function checkConflicts(
  turnq: Turnq,
  input: ReadableInput,
  cells: CellOptions,
  signal: AbortSignal,
): Promise<void> {
  let taken = 0;
  const first: CellRequest[] = [];
  const compare = async (chunk: readonly CellRequest[]): Promise<void> => {
    const ids = new Set(await turnq.conflicts(chunk));
    taken += ids.size;
    first.push(...chunk.filter(({ id }) => ids.has(id)).slice(0, CONFLICTS_SHOWN - first.length));
  };
  let chunk: CellRequest[] = [];
  for await (const request of requestsOf(input.open, cells)) {
    signal.throwIfAborted();
    if (chunk.push(request) < COMPARE_TURNS) continue;
    await compare(chunk);
    chunk = [];
  }
  await compare(chunk);
  if (taken === 0) return;
  const named = await Promise.all(
    first.map(async (request) => {
      const { sample, epoch } = request.batch;
      const fields = await turnq.difference(request);
      const what = fields.length === 0 ? "" : ` (other ${fields.join(", ")})`;
      return `sample ${sample} of ${request.agent}${cells.epochs === 1 ? "" : `, epoch ${epoch}`}${what}`;
    }),
  );
  const more = taken > first.length ? ` and ${taken - first.length} more` : "";
  throw new TurnqError("batch_conflict", `${existWith(taken)} other content: ${named.join("; ")}${more}`, {
    where: `batch ${cells.batch}`,
    hint: "Nothing was stored. Use another --batch, or the input and agents that the batch was submitted with.",
    details: { turns: first.map(({ id }) => id), count: taken },
  });
}

function existWith(turns: number): string {
  return turns === 1 ? "1 turn exists with" : `${turns} turns exist with`;
}

/** The turns of an input that was checked. */
export function turnsOf(input: ReadableInput, cells: CellOptions): AsyncIterable<CellRequest> {
  return requestsOf(input.open, cells);
}

/** What a submission stored. */
export interface StoredTurns {
  readonly added: number;
  /** Turns that were there before; they stay as they were first submitted. */
  readonly duplicates: number;
  /** False when it was interrupted: what was told of is stored, and the same submission completes it. */
  readonly complete: boolean;
}

/** Stores the turns chunk by chunk. Aborted, it stops between two chunks. */
export async function storeTurns(
  turnq: Turnq,
  input: ReadableInput,
  cells: CellOptions,
  options: { readonly signal: AbortSignal; readonly onStored?: ((stored: number) => void) | undefined },
): Promise<StoredTurns> {
  let added = 0;
  let duplicates = 0;
  const changedMeanwhile = (cause?: unknown): TurnqError =>
    changedInput(
      `Turns of it that batch ${cells.batch} has now: ${added + duplicates}, as they were read. Look at them before you go on with it.`,
      cause,
    );
  const requests = async function* (): AsyncGenerator<CellRequest> {
    for await (const request of requestsOf(input.open, cells)) {
      if (options.signal.aborted) return;
      yield request;
    }
  };
  try {
    for await (const chunk of turnq.store(requests())) {
      for (const { duplicate } of chunk) {
        if (duplicate) duplicates += 1;
        else added += 1;
      }
      options.onStored?.(added + duplicates);
    }
  } catch (error) {
    if (!options.signal.aborted) throw (await input.changed()) ? changedMeanwhile(error) : error;
  }
  if (!options.signal.aborted && (await input.changed())) throw changedMeanwhile();
  return { added, duplicates, complete: !options.signal.aborted };
}
