import { asText, toJson } from "../domain/json.ts";
import { cutText } from "../domain/text.ts";
import { EventBody } from "../domain/turn-event.ts";
import { endedWell, type AttemptStatus } from "../domain/turn-record.ts";
import { UNKNOWN_USAGE, readUsage, type Usage } from "../domain/usage.ts";

/** Longest name of a model that is kept, in characters. */
const MODEL_MAX = 1000;

type Of<T extends EventBody["type"]> = Extract<EventBody, { type: T }>;
type Threaded = Exclude<EventBody, Of<"rolled_back"> | Of<"turn_completed">>;
type Content = Of<"text_delta" | "thought_delta" | "call_start" | "tool_start">;
export type AgentEnd = Of<"agent_end">;

/** What is open in one thread: the agent itself or one nested in it. */
interface Thread {
  readonly place: { threadId?: string; parentThreadId?: string };
  step: number | undefined;
  lastStep: number;
  readonly tools: Set<string>;
  ended: boolean;
}

/**
 * Makes of whatever an agent emits a stream in which everything is closed: one `agent_start` first,
 * one `agent_end` last, every step and tool started once and ended once. What cannot be an event,
 * what only a worker says and whatever comes after the end is dropped, but for usage; work outside a step opens
 * one. The root's own `agent_end` is held back: the owner of the gate writes it.
 */
export class EventGate {
  readonly #sink: (event: EventBody) => void;
  readonly #onLate: (usage: Usage) => void;
  readonly #agent: string;
  readonly #root: Thread = newThread({});
  readonly #nested = new Map<string, Thread>();
  #opened = false;
  #closed = false;
  #said: AgentEnd | undefined;
  #stepsEnded = 0;

  /**
   * `onLate` gets usage that is told after the last event: it was paid for all the same. What either throws is ignored:
   * whoever listens must not break what it listens to.
   */
  constructor(agent: string, sink: (event: EventBody) => void, onLate: (usage: Usage) => void = () => undefined) {
    this.#sink = sink;
    this.#onLate = onLate;
    this.#agent = agent;
  }

  /** The agent's own word on its end, which was held back. */
  get said(): AgentEnd | undefined {
    return this.#said;
  }

  /** The number of the last step that was started; 0 before the first. */
  get stepNumber(): number {
    return this.#root.lastStep;
  }

  get stepsEnded(): number {
    return this.#stepsEnded;
  }

  /** Emits `agent_start` if it has not been. */
  open(first?: Of<"agent_start">): void {
    if (this.#opened || this.#closed) return;
    this.#opened = true;
    if (first?.threadId !== undefined) this.#root.place.threadId = first.threadId;
    this.#send({ ...first, type: "agent_start", agent: this.#agent });
  }

  /** Takes one event. Never throws. */
  emit(raw: EventBody): void {
    if (this.#closed) return this.#late(raw);
    if (this.#said !== undefined) return;
    const event = cleanEvent(raw);
    if (event === undefined || event.type === "rolled_back" || event.type === "turn_completed") return;
    const thread = this.#threadOf(event);
    if (thread === undefined) return;
    this.open(event.type === "agent_start" ? event : undefined);
    if (event.type !== "agent_start") this.#pass(placed(event, thread), thread);
  }

  /** Ends every open tool, nested agent and step, as befits an attempt that ended with `status`. */
  closeOpen(status: AttemptStatus): void {
    if (this.#closed) return;
    this.open();
    const nested = [...this.#nested.values()].toReversed();
    for (const thread of nested) this.#closeNested(thread, endedWell(status) ? "stopped_early" : "crashed");
    this.#closeThread(this.#root, endedWell(status));
  }

  /** The last event; after it the gate is shut. */
  end(figures: Omit<AgentEnd, "type">): void {
    if (this.#closed) return;
    this.closeOpen(figures.status);
    this.#send({ ...figures, ...this.#root.place, type: "agent_end" });
    this.#closed = true;
  }

  #late(raw: EventBody): void {
    try {
      const event = raw.type === "usage" ? cleanEvent(raw) : undefined;
      if (event?.type === "usage") this.#onLate(event.usage);
    } catch {
      // see the constructor
    }
  }

  #pass(event: Exclude<Threaded, Of<"agent_start">>, thread: Thread): void {
    switch (event.type) {
      case "agent_end":
        if (thread === this.#root) this.#said = event;
        else this.#endNested(event, thread);
        return;
      case "step_start":
        this.#startStep(event, thread);
        return;
      case "step_end":
        this.#endStep(thread, event.success);
        return;
      case "tool_end":
        if (thread.tools.delete(event.id)) this.#send(event);
        return;
      case "text_delta":
      case "thought_delta":
      case "call_start":
      case "tool_start":
        this.#passContent(event, thread);
        return;
      case "plan":
      case "usage":
        this.#send(event);
        return;
    }
  }

  #passContent(event: Content, thread: Thread): void {
    if ("text" in event && event.text === "") return;
    if (event.type === "tool_start") {
      if (thread.tools.has(event.id)) return;
      thread.tools.add(event.id);
    }
    if (thread === this.#root && thread.step === undefined) this.#startStep({ type: "step_start", number: 1 }, thread);
    this.#send(event);
  }

  #startStep(event: Of<"step_start">, thread: Thread): void {
    this.#endStep(thread, true);
    const number = Math.max(event.number, thread.lastStep + 1);
    thread.step = number;
    thread.lastStep = number;
    this.#send({ ...event, ...thread.place, number });
  }

  #endStep(thread: Thread, success: boolean): void {
    if (thread.step === undefined) return;
    const number = thread.step;
    thread.step = undefined;
    if (thread === this.#root) this.#stepsEnded += 1;
    this.#send({ type: "step_end", number, success, ...thread.place });
  }

  #endNested(event: AgentEnd, thread: Thread): void {
    this.#closeThread(thread, endedWell(event.status));
    thread.ended = true;
    this.#send({ ...event, ...thread.place });
  }

  #closeNested(thread: Thread, status: AttemptStatus): void {
    if (thread.ended) return;
    const crashed = status === "crashed";
    this.#endNested({ type: "agent_end", status, crashed, output: "", usage: UNKNOWN_USAGE }, thread);
  }

  #closeThread(thread: Thread, well: boolean): void {
    const torn = thread.tools.size > 0;
    for (const id of thread.tools) this.#send({ type: "tool_end", id, status: "unresolved", ...thread.place });
    thread.tools.clear();
    this.#endStep(thread, well && !torn);
  }

  /**
   * The thread that an event belongs to; undefined for one of a nested agent that has ended. A
   * nested agent is known by its parent; one that was not announced is opened.
   */
  #threadOf(event: Threaded): Thread | undefined {
    const { threadId, parentThreadId } = event;
    if (threadId === undefined || threadId === this.#root.place.threadId) return this.#root;
    const known = this.#nested.get(threadId);
    if (known !== undefined) return known.ended ? undefined : known;
    if (parentThreadId === undefined) return this.#root;
    this.open();
    const thread = newThread({ threadId, parentThreadId });
    this.#nested.set(threadId, thread);
    const agent = event.type === "agent_start" ? event.agent : threadId;
    this.#send({ type: "agent_start", agent, ...thread.place });
    return thread;
  }

  #send(event: EventBody): void {
    try {
      this.#sink(event);
    } catch {
      // see the constructor
    }
  }
}

/** The event with the thread's ids and no others. */
function placed<T extends Threaded>(event: T, thread: Thread): T {
  const { threadId, parentThreadId } = thread.place;
  if (event.threadId === threadId && event.parentThreadId === parentThreadId) return event;
  const { threadId: _id, parentThreadId: _parent, ...plain } = event;
  return { ...plain, ...thread.place } as T;
}

function newThread(place: Thread["place"]): Thread {
  return { place, step: undefined, lastStep: 0, tools: new Set(), ended: false };
}

/** The event with nothing in it that JSON or a provider refuses; undefined when it is none. Never throws. */
export function cleanEvent(raw: EventBody): EventBody | undefined {
  try {
    const parsed = EventBody.safeParse(withCleanFields(raw));
    return parsed.success ? parsed.data : undefined;
  } catch {
    return undefined;
  }
}

function withCleanFields(raw: EventBody): EventBody {
  switch (raw.type) {
    case "text_delta":
    case "thought_delta":
      return { ...raw, text: asText(raw.text) };
    case "usage":
      return isObject(raw.usage) ? { ...raw, usage: readUsage(raw.usage) } : raw;
    case "call_start":
      return raw.model === undefined ? raw : { ...raw, model: cutText(asText(raw.model), MODEL_MAX) };
    case "tool_start":
      return { ...raw, args: toJson(raw.args) };
    case "tool_end":
      return raw.result === undefined ? raw : { ...raw, result: toJson(raw.result) };
    case "agent_end":
      return { ...raw, output: asText(raw.output), ...(isObject(raw.usage) ? { usage: readUsage(raw.usage) } : {}) };
    case "plan":
      return { ...raw, plan: raw.plan.map((step) => ({ ...step, text: asText(step.text) })) };
    default:
      return raw;
  }
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}
