import { FAILURE_MESSAGE_MAX, type Failure } from "../domain/failure.ts";
import { deepFreeze } from "../domain/freeze.ts";
import { toJson, type JsonObject } from "../domain/json.ts";
import { Message, lastAssistantText } from "../domain/message.ts";
import { CUT_NOTE, cleanText, cutText, cutTranscript } from "../domain/text.ts";
import type { EventBody } from "../domain/turn-event.ts";
import { crashReason, type AttemptStatus, type PlanStep, type TurnRecord } from "../domain/turn-record.ts";
import type { Input } from "../domain/turn-request.ts";
import { addUsage, type Usage } from "../domain/usage.ts";
import { validTurn, messagesOf, type CalledTool, type Segment } from "./transcript.ts";
import { stepOf, type OpenStep, type StepDetails } from "./open-step.ts";
import { boundMessages } from "./bound-messages.ts";
import { contentOf, truncatedOf, type Content } from "./record-content.ts";
import { UsageAccount, bookUsage } from "./usage-account.ts";

/** What an agent says of its environment, in UTF-16 units of its JSON. */
const ENVIRONMENT_MAX = 64 * 1024;

const BUILT = new WeakSet<TurnRecord>();

export interface CollectorOptions {
  readonly agent: string;
  readonly attempt: number;
  readonly iteration: number;
  readonly input: Input;
  /** Epoch ms. */
  readonly startedAt: number;
  /** The same instant on the monotonic clock; without it durations come from the events' own instants. */
  readonly startedMs?: number | undefined;
  /** The agent's ability: then no model call is unannounced. */
  readonly announcesCalls: boolean;
  /** The limit of the transcript; 8 Mi unless given. */
  readonly maxChars?: number | undefined;
  /** What was left out of the events before they came in; nothing unless given. */
  readonly cuts?: TranscriptCuts | undefined;
}

/** What a transcript lacks. */
export interface TranscriptCuts {
  /** Something was left out. */
  readonly cut: boolean;
  /** The agent's own text was cut, so that its last text is not the one that it said last. */
  readonly textCut: boolean;
}

/** How the attempt ended, for the record; without it the record is of an attempt in mid-stream. */
export interface RecordEnd {
  readonly status: AttemptStatus;
  readonly crashed: boolean;
  readonly crashReason?: string | undefined;
  readonly failure?: Failure | undefined;
  readonly output?: string | undefined;
  readonly messages?: readonly Message[] | undefined;
  readonly environment?: JsonObject | undefined;
  /** Epoch ms; or `atMs` on the monotonic clock, which wins; else the last event's instant. */
  readonly endedAt?: number | undefined;
  readonly atMs?: number | undefined;
  /** A record that another process built: all but the end is taken from it. */
  readonly record?: TurnRecord | undefined;
}

/**
 * Folds an attempt's events into its record, at any moment, also in mid-stream and from a stream
 * that was cut anywhere. The record is always valid: tools without an end are `unresolved`, the
 * messages can be sent to a provider, their usage adds up to the record's. How much comes in is
 * bounded by whoever feeds it (TranscriptBudget); what an agent says beside its events is bounded here.
 */
export class EventCollector {
  readonly #options: CollectorOptions;
  readonly #account: UsageAccount;
  readonly #steps: OpenStep[] = [];
  readonly #segments: Segment[] = [];
  readonly #openTools = new Map<string, CalledTool>();
  readonly #messageIds = new Set<string>();
  #rootThread: string | undefined;
  #plan: readonly PlanStep[] = [];
  #model: string | undefined;
  #output: string | undefined;
  #lastAt: number;
  #empty = true;

  /** @internal */
  constructor(options: CollectorOptions) {
    this.#options = options;
    this.#account = new UsageAccount(options.announcesCalls);
    this.#lastAt = options.startedAt;
  }

  /** True when no event but the start and the end of the agent was seen. */
  get isEmpty(): boolean {
    return this.#empty;
  }

  /** Steps that were started and tools that were called, nested ones included among the tools. */
  get counts(): { readonly steps: number; readonly toolCalls: number } {
    return { steps: this.#steps.length, toolCalls: this.#account.toolCalls };
  }

  /** The text of the last assistant message with content; `""` when there is none. */
  lastText(): string {
    return this.#segments.findLast((segment) => segment.text.trim() !== "")?.text ?? "";
  }

  /** True when text is the last thing that happened in the open step. */
  endsWithText(): boolean {
    const last = this.#segments.at(-1);
    return last !== undefined && last.text !== "" && last.tools.length === 0 && this.#openStep !== undefined;
  }

  /** What no event carries of the open step, or of the last one. */
  describeStep(details: StepDetails): void {
    const step = this.#steps.at(-1);
    if (step !== undefined) step.details = { ...step.details, ...details };
  }

  /** Takes the next event; `at` is epoch ms. Events of nested agents count, but are not in steps and messages. */
  add(event: EventBody, at: number): void {
    this.#lastAt = Math.max(this.#lastAt, at);
    if (event.type !== "agent_start" && event.type !== "agent_end") this.#empty = false;
    if (this.#isNested(event)) this.#addNested(event);
    else this.#addOwn(event, at);
  }

  /** Counts an event that there was no room for. */
  leaveOut(event: EventBody, at: number): void {
    this.#lastAt = Math.max(this.#lastAt, at);
    this.#empty = false;
    this.#addNested(event);
  }

  /** What has been used so far; see {@link UsageAccount.total}. */
  usage(broken: boolean): Usage {
    return this.#account.total(broken);
  }

  /** True for a record that a collector of this process has built: it needs no check. */
  static hasBuilt(record: TurnRecord): boolean {
    return BUILT.has(record);
  }

  /** The record as of now. */
  record(end: RecordEnd): TurnRecord {
    const { agent, attempt, iteration, input, startedAt } = this.#options;
    const { maxChars } = this.#options;
    const { model, usage, cuts, ...content } =
      end.record === undefined ? this.#content(end) : contentOf(end.record, maxChars);
    const durationMs = this.#durationMs(end);
    const messages = bookUsage(content.messages, usage);
    const given = end.output ?? content.output;
    const whole = cleanText(given ?? lastAssistantText(messages));
    const output = cutTranscript(whole, maxChars);
    const outputCut = output !== whole || (end.output === undefined ? cuts.output : this.#isCutText(end.output));
    const record: TurnRecord = deepFreeze({
      v: 1,
      attempt,
      iteration,
      agent,
      input: typeof input === "string" ? input : structuredClone(input),
      output,
      ...truncatedOf(outputCut, cuts.transcript || this.#options.cuts?.cut === true),
      messages,
      steps: content.steps,
      plan: content.plan.length === 0 ? [] : structuredClone(content.plan),
      usage,
      ...(model === undefined ? {} : { model }),
      status: end.status,
      crashed: end.crashed,
      ...reasonsOf(end),
      startedAt,
      endedAt: startedAt + durationMs,
      durationMs,
      environment: environmentOf(end.record?.environment, end.environment),
    });
    BUILT.add(record);
    return record;
  }

  #content(end: RecordEnd): Content {
    const { messages, cut } = this.#messages(end.messages);
    return {
      output: this.#output,
      messages,
      cuts: { output: this.#output === undefined && cut, transcript: cut },
      steps: this.#steps.map((step) => stepOf(step, this.#segments)),
      plan: [...this.#plan],
      usage: this.usage(end.crashed),
      model: this.#model,
    };
  }

  /** True for the agent's last text where that was cut. */
  #isCutText(output: string): boolean {
    return this.#options.cuts?.textCut === true && output === this.lastText();
  }

  get #openStep(): OpenStep | undefined {
    const last = this.#steps.at(-1);
    return last?.success === undefined ? last : undefined;
  }

  #isNested(event: EventBody): boolean {
    if (!("threadId" in event) || event.threadId === undefined) return false;
    if (event.type === "agent_start" && event.parentThreadId === undefined) this.#rootThread = event.threadId;
    return event.parentThreadId !== undefined && event.threadId !== this.#rootThread;
  }

  #addNested(event: EventBody): void {
    if (event.type === "tool_start") this.#account.toolStarted();
    else if (event.type === "call_start") this.#account.callStarted();
    else if (event.type === "usage") this.#account.report(event.usage);
  }

  #addOwn(event: EventBody, at: number): void {
    switch (event.type) {
      case "agent_start":
        this.#model ??= event.model;
        return;
      case "step_start":
        this.#startStep(event.number);
        return;
      case "call_start":
        this.#model = event.model ?? this.#model;
        this.#account.callStarted();
        this.#stepForContent();
        return;
      case "text_delta":
        this.#addText(event.text);
        return;
      case "tool_start":
        this.#startTool(event, at);
        return;
      case "tool_end":
        this.#endTool(event, at);
        return;
      case "plan":
        this.#plan = event.plan;
        return;
      case "usage":
        this.#report(event.usage);
        return;
      case "step_end":
        this.#endStep(event.success);
        return;
      case "agent_end":
        this.#output = event.output;
        return;
      default:
        return;
    }
  }

  #startStep(number: number): void {
    this.#endStep(true);
    this.#steps.push({
      number: Math.max(number, (this.#steps.at(-1)?.number ?? 0) + 1),
      success: undefined,
      details: {},
    });
  }

  #endStep(success: boolean): void {
    const open = this.#openStep;
    if (open !== undefined) open.success = success;
  }

  #stepForContent(): OpenStep {
    if (this.#openStep === undefined) this.#startStep(1);
    const step = this.#openStep ?? { number: 1, success: undefined, details: {} };
    return step;
  }

  /** The segment that text or a tool goes to: a new one after a step's end, and for text that follows tools. */
  #segmentFor(what: "text" | "tool"): Segment {
    const { number } = this.#stepForContent();
    const last = this.#segments.at(-1);
    if (last !== undefined && last.step === number && (what === "tool" || last.tools.length === 0)) return last;
    const segment: Segment = { step: number, text: "", tools: [], usage: undefined };
    this.#segments.push(segment);
    return segment;
  }

  #addText(text: string): void {
    this.#segmentFor("text").text += text;
  }

  #startTool(event: Extract<EventBody, { type: "tool_start" }>, at: number): void {
    if (this.#openTools.has(event.id)) return;
    this.#account.toolStarted();
    const tool: CalledTool = {
      id: event.id,
      messageId: this.#freshId(event.id),
      name: event.name,
      args: event.args,
      startedAt: at,
      status: undefined,
      result: undefined,
      endedAt: undefined,
    };
    this.#segmentFor("tool").tools.push(tool);
    this.#openTools.set(event.id, tool);
  }

  /** Agents use ids again; in a conversation each call needs one of its own. */
  #freshId(id: string): string {
    let fresh = id;
    for (let n = 2; this.#messageIds.has(fresh); n += 1) fresh = `${id}#${n}`;
    this.#messageIds.add(fresh);
    return fresh;
  }

  #endTool(event: Extract<EventBody, { type: "tool_end" }>, at: number): void {
    const tool = this.#openTools.get(event.id);
    if (tool === undefined) return;
    this.#openTools.delete(event.id);
    tool.status = event.status;
    tool.result = event.result;
    if (event.status !== "unresolved") tool.endedAt = at;
  }

  #report(usage: Usage): void {
    const more = this.#account.report(usage);
    const segment = this.#segments.at(-1);
    if (more === undefined || segment === undefined) return;
    segment.usage = segment.usage === undefined ? more : addUsage(segment.usage, more);
  }

  #messages(said: readonly Message[] | undefined): { readonly messages: Message[]; readonly cut: boolean } {
    const { input } = this.#options;
    const given = said === undefined ? undefined : Message.array().safeParse(toJson(said)).data;
    if (given === undefined)
      return { messages: messagesOf(input, this.#segments), cut: this.#options.cuts?.textCut === true };
    const bound = boundMessages(given, this.#options.maxChars);
    return { messages: validTurn(input, bound), cut: bound !== given };
  }

  #durationMs(end: RecordEnd): number {
    const { startedAt, startedMs } = this.#options;
    if (end.atMs !== undefined && startedMs !== undefined) return Math.max(0, Math.round(end.atMs - startedMs));
    return Math.max(0, (end.endedAt ?? this.#lastAt) - startedAt);
  }
}

function reasonsOf({ crashed, crashReason: said, failure }: RecordEnd): Pick<TurnRecord, "crashReason" | "failure"> {
  const reason = said ?? (crashed ? failure?.message : undefined) ?? "";
  return {
    ...(reason === "" ? {} : { crashReason: crashReason(reason) }),
    ...(failure === undefined ? {} : { failure: cutFailure(failure) }),
  };
}

/** A record that an agent built itself may hold one that is longer than any of ours. */
function cutFailure(said: Failure): Failure {
  const { message, cause } = said;
  const long = (text: string | undefined): boolean => text !== undefined && text.length > FAILURE_MESSAGE_MAX;
  if (!long(message) && !long(cause?.message)) return said;
  const shorter = cause === undefined ? {} : { cause: { message: cutText(cause.message, FAILURE_MESSAGE_MAX) } };
  return { ...said, message: cutText(message, FAILURE_MESSAGE_MAX), ...shorter };
}

function environmentOf(...layers: (JsonObject | undefined)[]): JsonObject {
  let merged: JsonObject = {};
  for (const layer of layers) {
    if (layer === undefined) continue;
    const clean = toJson(layer);
    // A spread defines fields instead of assigning them, so that "__proto__" stays an ordinary key.
    if (typeof clean === "object" && clean !== null && !Array.isArray(clean)) merged = { ...merged, ...clean };
  }
  return JSON.stringify(merged).length <= ENVIRONMENT_MAX ? merged : { cut: CUT_NOTE };
}
