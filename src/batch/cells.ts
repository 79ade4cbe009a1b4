import type { CheckType } from "../domain/check.ts";
import { TurnqError } from "../domain/error.ts";
import { Id } from "../domain/id.ts";
import { wellFormed } from "../domain/text.ts";
import { LineRequest, REQUEST_MAX_BYTES, TurnRequest } from "../domain/turn-request.ts";
import type { Cell } from "../domain/turn-request.ts";
import { cellTurnId } from "../domain/cell-id.ts";
import { WrittenNumber, mayLoseDigits, parseExactly, plainNumbers, writtenText } from "./exact-json.ts";
import type { Mapping } from "./mapping.ts";
import { applyMapping, checkedMapping } from "./mapping.ts";
import { didYouMean } from "../parse/nearest.ts";
import { problemsOf } from "../parse/problem.ts";
import type { Problem } from "../parse/problem.ts";
import { checkProblem } from "./score.ts";

/** What the batch must know of the agents. */
export interface AgentDirectory {
  /** The agents that can be named; empty when none is known yet, and then none is refused. */
  names(): readonly string[];
  /** Those of them that are worth telling to somebody who has named none; all unless given. */
  namesToTell?(): readonly string[];
  /** Why this agent cannot do this request (a limit that it cannot enforce, say); undefined when it can. */
  problem(agent: string, request: TurnRequest): string | undefined;
  /** Why this agent can do no request at all (its key is not there, say), which is no line's fault. */
  fault?(agent: string): string | undefined;
  /** The lane that the request would go to. With it a session on two lanes is found before anything is stored. */
  lane?(agent: string, request: TurnRequest): string;
}

/** The forms that an input may have. */
export type InputFormat = "jsonl" | "csv";

/** How input becomes turns: each sample × agents × epochs is one. What a line says itself stands above the options. */
export interface CellOptions {
  readonly batch: string;
  /** The agents of every line that names none. */
  readonly agents: readonly string[];
  /** From 1. */
  readonly epochs: number;
  /** The check of every line that has none; its value is the line's target. */
  readonly expect?: CheckType | undefined;
  readonly map?: Mapping | undefined;
  /** `jsonl` unless given. */
  readonly format?: InputFormat | undefined;
  /** Only the first so many samples; what follows is not read. */
  readonly limit?: number | undefined;
  /** Only the sample with this id. */
  readonly sample?: string | undefined;
  readonly timeoutMs?: number | undefined;
  readonly lane?: string | undefined;
  readonly directory: AgentDirectory;
}

/** A request that is ready to be submitted: a cell of a batch. */
export type CellRequest = TurnRequest & { readonly id: string; readonly batch: Cell };

/** One input line as it was understood, or what is wrong with it. */
export type Sample =
  | { readonly id: string; readonly requests: readonly TurnRequest[]; readonly problems?: undefined }
  | { readonly problems: readonly Problem[]; readonly id?: string | undefined; readonly requests?: undefined };

/** Throws {@link TurnqError} for options that no line could be right with. */
export function checkCellOptions(options: CellOptions): void {
  if (!Id.safeParse(options.batch).success) {
    throw new TurnqError("invalid_id", "must be 1 to 200 characters of letters, digits and . _ - / : @", {
      where: "batch",
    });
  }
  wholeNumber("epochs", options.epochs);
  if (options.limit !== undefined) wholeNumber("limit", options.limit);
  if (options.timeoutMs !== undefined) wholeNumber("timeoutMs", options.timeoutMs);
  if (options.map !== undefined) checkedMapping(options.map);
  const names = options.directory.names();
  for (const [index, agent] of options.agents.entries()) {
    if (isUnknown(agent, names)) throw new TurnqError("unknown_agent", unknownAgent(agent, options.directory));
    if (options.agents.indexOf(agent) < index) {
      throw new TurnqError("invalid_request", `the agent "${agent}" is named twice`, { where: "agents" });
    }
  }
  refuseFaulty(options.agents, options.directory);
}

/** Throws `config` when any of these agents can do no request at all, naming each. */
export function refuseFaulty(agents: Iterable<string>, directory: AgentDirectory): void {
  const faults = [...agents].flatMap((agent) => {
    const fault = directory.fault?.(agent);
    return fault === undefined ? [] : [{ agent, fault }];
  });
  const [first] = faults;
  if (first === undefined) return;
  const more = faults.slice(1).map(({ agent, fault }) => `; agent ${agent}: ${fault}`);
  throw new TurnqError("config", `${first.fault}${more.join("")}`, {
    where: `agent ${first.agent}`,
    hint: "Correct that, or name other agents.",
  });
}

function wholeNumber(where: string, value: number): void {
  if (Number.isSafeInteger(value) && value >= 1) return;
  throw new TurnqError("invalid_request", "must be a whole number of at least 1", { where });
}

/** A producer that knows no agent at all (no configuration, no worker yet) can refuse none. */
function isUnknown(agent: string, names: readonly string[]): boolean {
  return names.length > 0 && !names.includes(agent);
}

function unknownAgent(agent: string, directory: AgentDirectory): string {
  const names = directory.namesToTell?.() ?? directory.names();
  return `unknown agent "${agent}"${didYouMean(agent, directory.names())}; known are ${names.slice(0, 20).join(", ")}`;
}

/**
 * The sample that one line, or one object of a program, stands for. `number` is its place in the
 * input and its id when it has none of its own. `text` is the line that `value` was parsed from by
 * {@link parseExactly}; undefined for an object of a program.
 */
export function readSample(value: unknown, number: number, options: CellOptions, text?: string): Sample {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return { problems: [{ message: "must be a JSON object, one on each line" }] };
  }
  const problems: Problem[] = [];
  const raw = rawRequest(value, options, text, problems);
  const sample = typeof raw.id === "string" ? raw.id : String(number);
  const candidate = { ...raw, ...fillers(raw, options) };
  const parsed = TurnRequest.safeParse(candidate);
  if (!parsed.success) {
    const told = new Set(problems.map((problem) => problem.field));
    problems.push(...problemsOf(parsed.error, candidate, LineRequest).filter((problem) => !told.has(problem.field)));
  }
  const agents = typeof raw.agent === "string" ? [raw.agent] : options.agents;
  if (agents.length === 0)
    problems.push({ field: "agent", message: "is missing; the line or the options must name one" });
  if (problems.length > 0 || !parsed.success) return { id: sample, problems: named(problems, options.map) };
  const request = surrogatesReplaced(parsed.data, text);
  problems.push(...contentProblems(request, agents, options, text));
  if (problems.length > 0) return { id: sample, problems: named(problems, options.map) };
  return { id: sample, requests: agents.map((agent) => ({ ...request, agent })) };
}

type Raw = Readonly<Record<string, unknown>>;

function rawRequest(value: object, options: CellOptions, text: string | undefined, problems: Problem[]): Raw {
  const mapped = mapLine(value, options.map);
  problems.push(...mapped.problems);
  let raw = mapped.request;
  if (raw.batch !== undefined) problems.push({ field: "batch", message: "is set by the submission, not by a line" });
  if (text !== undefined && mayLoseDigits(text)) raw = withPlainNumbers(raw, options.map !== undefined, problems);
  if (typeof raw.id === "number") raw = { ...raw, id: idText(raw.id, text, options.map, problems) };
  if (options.map !== undefined && typeof raw.input === "number") raw = { ...raw, input: String(raw.input) };
  return raw;
}

function mapLine(
  value: object,
  map: Mapping | undefined,
): { readonly request: Raw; readonly problems: readonly Problem[] } {
  const line: Raw = Object.fromEntries(Object.entries(value));
  return map === undefined ? { request: line, problems: [] } : applyMapping(line, map);
}

/**
 * Numbers that cannot be kept: their digits where text will do, else refused, and never rounded. In
 * a file of somebody else's columns what nobody asked for is text too, so that the file can be used.
 */
function withPlainNumbers(raw: Raw, mapped: boolean, problems: Problem[]): Raw {
  const asText = new Set(["id", "target", "input", ...(mapped ? ["metadata"] : [])]);
  const entries = Object.entries(raw).map(([key, item]) => [
    key,
    asText.has(key) && (key !== "input" || !Array.isArray(item))
      ? writtenText(item)
      : plainNumbers(item, [key], problems),
  ]);
  return Object.fromEntries(entries);
}

/** An id that is a number is its text as it was written; a business number is a good id. */
function idText(id: number, text: string | undefined, map: Mapping | undefined, problems: Problem[]): string {
  if (text !== undefined && /\d[.eE]|-0/.test(text)) {
    const all = parseExactly(text, true);
    const written = typeof all === "object" && all !== null ? mapLine(all, map).request.id : undefined;
    return String(written instanceof WrittenNumber ? written.text : id);
  }
  if (text === undefined && !Number.isSafeInteger(id)) {
    problems.push({ field: "id", message: "a number as an id must be a whole one below 2^53; give it as text" });
  }
  return String(id);
}

/** What the options add where the line says nothing. */
function fillers(raw: Raw, options: CellOptions): Raw {
  const limits = raw.limits ?? {};
  const noTimeout = typeof limits === "object" && !Array.isArray(limits) && !Object.hasOwn(limits, "timeoutMs");
  return {
    ...(raw.agent === undefined ? { agent: options.agents[0] ?? "none" } : {}),
    ...(raw.lane === undefined && options.lane !== undefined ? { lane: options.lane } : {}),
    ...(raw.expect === undefined && options.expect !== undefined ? { expect: [{ type: options.expect }] } : {}),
    ...(noTimeout && options.timeoutMs !== undefined ? { limits: { ...limits, timeoutMs: options.timeoutMs } } : {}),
  };
}

/** A lone surrogate makes a body that no provider takes; it becomes U+FFFD, as UTF-8 would have it. */
function surrogatesReplaced(request: TurnRequest, text: string | undefined): TurnRequest {
  // Valid UTF-8 holds none but as an escape.
  if (text !== undefined && !/\\u[dD][89a-fA-F]/.test(text)) return request;
  // JSON.stringify escapes a surrogate only where it stands alone.
  if (!/\\ud[89a-f]/.test(JSON.stringify(request))) return request;
  return TurnRequest.parse(replaceIn(request));
}

function replaceIn(value: unknown): unknown {
  if (typeof value === "string") return wellFormed(value);
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(replaceIn);
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [wellFormed(key), replaceIn(item)]));
}

// What a cell adds to its line: ids, the batch, the agent.
const CELL_BYTES = 1000;

function contentProblems(
  request: TurnRequest,
  agents: readonly string[],
  options: CellOptions,
  text: string | undefined,
): Problem[] {
  const problems: Problem[] = [];
  // Measured only where it can matter: written anew, JSON is never many times longer than the text it came from.
  if (text === undefined || text.length > REQUEST_MAX_BYTES / 16) {
    const bytes = Buffer.byteLength(JSON.stringify(request)) + CELL_BYTES;
    if (bytes > REQUEST_MAX_BYTES)
      problems.push({ message: `the request has ${bytes} bytes of JSON; ${REQUEST_MAX_BYTES} is the most` });
  }
  for (const [index, check] of (request.expect ?? []).entries()) {
    const problem = checkProblem(check, request.target);
    if (problem !== undefined) problems.push({ field: `expect[${index}]`, message: problem });
  }
  const names = options.directory.names();
  for (const agent of agents) {
    if (isUnknown(agent, names)) problems.push({ field: "agent", message: unknownAgent(agent, options.directory) });
    else {
      const problem = options.directory.problem(agent, { ...request, agent });
      if (problem !== undefined) problems.push({ message: problem });
    }
  }
  return problems;
}

/** With a mapping, people know the column and not the field. */
function named(problems: readonly Problem[], map: Mapping | undefined): Problem[] {
  return problems.map((problem) => {
    const column = problem.field === undefined ? undefined : map?.get(/^\w+/.exec(problem.field)?.[0] ?? "");
    return column === undefined || column === problem.field
      ? problem
      : { ...problem, field: `${problem.field} (from ${column})` };
  });
}

/** The turns of a sample, agent by agent, epoch by epoch. */
export function* cellsOf(
  sample: string,
  requests: readonly TurnRequest[],
  options: CellOptions,
): Generator<CellRequest, void, undefined> {
  for (const request of requests) {
    for (let epoch = 1; epoch <= options.epochs; epoch += 1) {
      const id = cellTurnId({ batch: options.batch, sample, agent: request.agent, epoch });
      yield {
        ...request,
        ...cellSession(request, options.batch, epoch),
        id,
        batch: { id: options.batch, sample, epoch },
      };
    }
  }
}

/** A session of a batch is one of this batch, agent and epoch: neither another run nor another agent's turns are in its history. */
function cellSession({ session, agent }: TurnRequest, batch: string, epoch: number): { readonly session?: string } {
  return session === undefined ? {} : { session: cellTurnId({ batch, sample: session, agent, epoch }) };
}
