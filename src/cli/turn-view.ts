import type { Message } from "../domain/message.ts";
import { textOf } from "../domain/message.ts";
import { cutText } from "../domain/text.ts";
import type { TurnRecord } from "../domain/turn-record.ts";
import type { StoredRequest } from "../domain/turn-request.ts";
import type { Outcome, TurnResult, TurnStatus } from "../domain/turn-result.ts";
import { addUsage, exceedingUsage, sumUsage, type Usage } from "../domain/usage.ts";
import type { ClosedAttempt, OpenedAttempt, TurnRow } from "../ledger/ledger.ts";
import type { Colors } from "./output.ts";
import { harmless } from "./harmless.ts";
import { duration, usageDetails, usageText } from "./quantity-text.ts";

/** Longest text that is shown of one message or output, in characters. */
const TEXT_MAX = 4000;

/** Everything about one turn. */
export interface TurnStory {
  readonly row: TurnRow;
  readonly request: StoredRequest;
  /** The generation that is told of; the row's is the newest. */
  readonly shown: number;
  readonly attempts: readonly (ClosedAttempt & { readonly record?: TurnRecord | undefined })[];
  readonly running?: (OpenedAttempt & { readonly attempt: number }) | undefined;
  readonly result?: TurnResult | undefined;
  /** Spend that became known after the Result, which never changes. */
  readonly lateUsage?: Usage | undefined;
  /** What the generations before ended in. */
  readonly earlier: readonly {
    readonly generation: number;
    readonly outcome?: Outcome | undefined;
    readonly status?: TurnStatus | undefined;
    readonly error?: string | undefined;
  }[];
}

/** What is booked for the attempts of a Result beyond what it holds of them; undefined when nothing. */
export function lateUsageOf(result: TurnResult, attempts: readonly ClosedAttempt[]): Usage | undefined {
  const late = attempts.flatMap((attempt) => {
    const held = result.attempts.find((one) => one.attempt === attempt.attempt);
    if (held === undefined || attempt.late === undefined) return [];
    return exceedingUsage(addUsage(attempt.usage, attempt.late), held.usage) ?? [];
  });
  return late.length === 0 ? undefined : sumUsage(late);
}

/** A turn as a page of text: its attempts, the transcript, what it cost and the Result. */
export function turnText(story: TurnStory, colors: Colors): string {
  return [
    ...head(story, colors),
    ...story.attempts.flatMap((attempt) => ["", ...attemptLines(attempt, story, colors)]),
    ...runningLines(story, colors),
    ...earlierLines(story, colors),
    ...transcript(story, colors),
    ...costLines(story, colors),
    ...resultLines(story, colors),
  ].join("\n");
}

function head(story: TurnStory, colors: Colors): string[] {
  const { row, request, shown } = story;
  const cell = request.batch;
  const state = row.state === "settled" ? `settled: ${row.outcome ?? "unknown"}` : row.state;
  return [
    `${colors.bold(row.id)}  ${state}`,
    `agent ${row.agent}, lane ${row.lane}${row.generation > 1 ? `, generation ${shown} of ${row.generation}` : ""}`,
    ...(cell === undefined ? [] : [`batch ${cell.id}, sample ${cell.sample}, epoch ${cell.epoch}`]),
    ...(row.session === undefined ? [] : [`session ${row.session}`]),
    `submitted ${time(row.submittedAt)}`,
    ...cancelLines(story),
    "input",
    block(typeof request.input === "string" ? request.input : textOf(request.input)),
  ];
}

/** How far a cancel is; of an earlier generation nothing is known. */
function cancelLines({ row, shown }: TurnStory): string[] {
  const { cancel } = row;
  if (cancel === undefined || shown !== row.generation) return [];
  const { reason, by, requestedAt, stoppingAt, killedAt } = cancel;
  const who = by === undefined ? "" : ` by ${by}`;
  return [
    harmless(cutText(`cancel requested ${time(requestedAt)}${who}: ${reason}`, TEXT_MAX)).replaceAll("\n", " "),
    ...(stoppingAt === undefined ? [] : [`  told to stop ${time(stoppingAt)}`]),
    ...(killedAt === undefined ? [] : [`  killed ${time(killedAt)}`]),
  ];
}

function attemptLines(attempt: TurnStory["attempts"][number], story: TurnStory, colors: Colors): string[] {
  const { record, failure } = attempt;
  const bad = attempt.crashed || failure !== undefined;
  const paint = bad ? colors.yellow : colors.green;
  const partial = isTheAnswer(attempt, story) ? undefined : record;
  return [
    `${colors.bold(`attempt ${attempt.attempt}`)}  ${paint(attempt.status)}  ${duration(attempt.endedAt - attempt.startedAt)}`,
    `  ${time(attempt.startedAt)} on ${attempt.worker}`,
    ...(failure === undefined ? [] : [`  ${failure.code}: ${harmless(cutText(failure.message, TEXT_MAX))}`]),
    `  usage: ${usageDetails(attempt.usage)}`,
    ...(attempt.late === undefined ? [] : [`  known later: ${usageDetails(attempt.late)}`]),
    ...(partial === undefined ? [] : partialLines(partial)),
  ];
}

/** What an attempt did whose output is not the Result's. */
function partialLines(record: TurnRecord): string[] {
  const tools = record.steps.flatMap((step) => step.toolCalls).map((call) => `${call.name} (${call.status})`);
  return [
    ...(tools.length === 0 ? [] : [`  tools: ${harmless(tools.join(", "))}`]),
    ...(record.output === "" ? ["  partial output: none"] : ["  partial output:", block(record.output, 4)]),
  ];
}

function runningLines({ running }: TurnStory, colors: Colors): string[] {
  if (running === undefined) return [];
  return [
    "",
    `${colors.bold(`attempt ${running.attempt}`)}  running since ${time(running.startedAt)} on ${running.worker}`,
  ];
}

function earlierLines({ earlier }: TurnStory, colors: Colors): string[] {
  if (earlier.length === 0) return [];
  const lines = earlier.map(({ generation, outcome, status, error }) => {
    const why = error === undefined ? "" : `: ${harmless(cutText(error, 200)).replaceAll("\n", " ")}`;
    const end = outcome === undefined ? "cannot be read" : `${outcome} (${status})`;
    return `  generation ${generation}  ${end}${why}`;
  });
  return ["", `${colors.bold("earlier")}  --generation N shows one`, ...lines];
}

function isTheAnswer(attempt: ClosedAttempt, story: TurnStory): boolean {
  return story.result?.ok === true && attempt.attempt === story.result.attempts.at(-1)?.attempt;
}

function transcript(story: TurnStory, colors: Colors): string[] {
  // The Result of a turn that failed holds no messages; what was said is in the last attempt's record.
  const said = story.result?.ok === true ? story.result.messages : story.attempts.at(-1)?.record?.messages;
  const messages = said ?? [];
  if (messages.length === 0) return [];
  return ["", colors.bold("transcript"), ...messages.map(messageText)];
}

function messageText(message: Message): string {
  const text = textOf(message.content);
  const calls = (message.toolCalls ?? []).map(
    (call) => `calls ${call.name} ${cutText(JSON.stringify(call.args), 500)}`,
  );
  const said = [...(text === "" ? [] : [text]), ...calls].join("\n");
  return `  ${message.role}${message.toolCallId === undefined ? "" : ` ${message.toolCallId}`}\n${block(said, 4)}`;
}

function costLines({ attempts, result, row, shown, lateUsage }: TurnStory, colors: Colors): string[] {
  const all = sumUsage(attempts.map(({ usage, late }) => (late === undefined ? usage : addUsage(usage, late))));
  if (attempts.length === 0) return [];
  return [
    "",
    colors.bold("cost"),
    `  ${usageDetails(all)}, over all attempts${shown === row.generation ? "" : " of this generation"}`,
    ...(result === undefined || result.attempts.length < 2 ? [] : [`  wasted: ${usageText(result.wastedUsage)}`]),
    ...(lateUsage === undefined ? [] : [`  known after the Result: ${usageDetails(lateUsage)}`]),
    ...(shown > 1 && result !== undefined ? [`  this generation: ${usageDetails(result.usage)}`] : []),
  ];
}

function resultLines({ result }: TurnStory, colors: Colors): string[] {
  if (result === undefined) return ["", "no Result yet"];
  const checks = result.score?.checks.map((check) => `${check.type} ${check.passed ? "passed" : "missed"}`) ?? [];
  return [
    "",
    `${colors.bold("result")}  ${result.ok ? colors.green("ok") : colors.red("not ok")} (${result.status})`,
    ...(result.error === undefined ? [] : [block(result.error)]),
    ...(result.output === "" ? [] : [block(result.output)]),
    ...(result.truncated === undefined ? [] : [`  cut at limits.maxTranscriptChars: ${result.truncated.join(", ")}`]),
    ...(checks.length === 0 ? [] : [`  checks: ${checks.join(", ")}`]),
  ];
}

function block(text: string, indent = 2): string {
  const space = " ".repeat(indent);
  const shown = cutText(text, TEXT_MAX);
  const cut = shown.length < text.length ? `\n${space}(cut; --json shows all ${text.length} characters)` : "";
  return `${space}${harmless(shown).trimEnd().replaceAll("\n", `\n${space}`)}${cut}`;
}

function time(at: number): string {
  return new Date(at).toISOString();
}
