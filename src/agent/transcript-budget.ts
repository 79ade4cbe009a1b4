import { toJson, type Json } from "../domain/json.ts";
import { CUT_NOTE, withCutNote } from "../domain/text.ts";
import type { EventBody } from "../domain/turn-event.ts";
import type { Usage } from "../domain/usage.ts";
import { Allowance } from "./allowance.ts";

/**
 * Bounds what one attempt can say, by what is kept of it: deltas that follow each other are one text. Beyond the limit
 * text is cut with a note, the values of tools are left out, and then events with their ends. What goes in is closed (see
 * EventGate), and so is what comes out. Model calls and usage always pass: no limit hides a cost.
 */
export class TranscriptBudget {
  /** True once something was left out. */
  cut = false;
  /** True once the agent's own text was cut: what it says last is then not what it said last. */
  textCut = false;
  readonly #allowance: Allowance;
  #textOver = false;
  /** The kind and thread of the delta that passed last, which the next one of its kind is merged with. */
  #stretch: string | undefined;
  #usage: Usage | undefined;
  /** What was started, let through and not ended; so it is no larger than the budget. */
  readonly #open = new Set<string>();

  constructor(max?: number) {
    this.#allowance = new Allowance(max);
  }

  /** The event as far as there is room for it; undefined for none. */
  fit(event: EventBody): EventBody | undefined {
    const fitting = this.#fit(event);
    if (fitting !== undefined && !isDelta(fitting)) this.#stretch = undefined;
    return fitting;
  }

  #fit(event: EventBody): EventBody | undefined {
    const thread = nestedThread(event);
    if (thread === undefined) return this.#fitContent(event, "");
    if (event.type === "agent_start") return this.#starts(`agent ${thread}`, event.agent.length) ? event : undefined;
    if (!this.#open.has(`agent ${thread}`)) return undefined;
    return event.type === "agent_end" ? this.#fitNestedEnd(event, thread) : this.#fitContent(event, thread);
  }

  /** `thread` is "" for the agent's own events. */
  #fitContent(event: EventBody, thread: string): EventBody | undefined {
    switch (event.type) {
      case "text_delta":
      case "thought_delta":
        return this.#fitText(event, thread);
      case "tool_start":
      case "tool_end":
        return this.#fitTool(event, `tool ${thread} ${event.id}`);
      case "step_start":
        return this.#starts(`step ${thread}`, 0) ? event : undefined;
      case "step_end":
        return this.#open.delete(`step ${thread}`) ? event : undefined;
      case "plan":
        return this.#take(sizeOf(event.plan)) ? event : undefined;
      case "usage":
        return this.#fitUsage(event);
      default:
        return event;
    }
  }

  /** True when there is room for the value beside what it belongs to; it is then booked. Never throws. */
  fits(value: Json | object): boolean {
    return this.#take(sizeOf(value), 0);
  }

  #fitText(event: Delta, thread: string): EventBody | undefined {
    const stretch = `${event.type} ${thread}`;
    const entries = stretch === this.#stretch ? 0 : 1;
    if (!this.#textOver && this.#take(event.text.length, entries)) {
      this.#stretch = stretch;
      return event;
    }
    if (thread === "" && event.type === "text_delta") this.textCut = true;
    if (this.#textOver) return undefined;
    this.#textOver = true;
    return { ...event, text: withCutNote(event.text.slice(0, this.#allowance.takeRest(entries))) };
  }

  #fitTool(event: Extract<EventBody, { type: "tool_start" | "tool_end" }>, name: string): EventBody | undefined {
    if (event.type === "tool_start") {
      if (!this.#starts(name, event.name.length + event.id.length)) return undefined;
      return this.fits(event.args) ? event : { ...event, args: CUT_NOTE };
    }
    if (!this.#open.delete(name)) return undefined;
    return event.result === undefined || this.fits(event.result) ? event : { ...event, result: CUT_NOTE };
  }

  /** Reports are cumulative: beyond the limit, one that says nothing new is left out, and nothing is lost by it. */
  #fitUsage(event: Extract<EventBody, { type: "usage" }>): EventBody | undefined {
    const news = this.#usage === undefined || !sameUsage(this.#usage, event.usage);
    this.#usage = event.usage;
    return this.#allowance.take(0) || news ? event : undefined;
  }

  #fitNestedEnd(event: Extract<EventBody, { type: "agent_end" }>, thread: string): EventBody {
    this.#open.delete(`agent ${thread}`);
    return this.#take(event.output.length, 0) ? event : { ...event, output: CUT_NOTE };
  }

  #starts(name: string, chars: number): boolean {
    if (!this.#take(chars)) return false;
    this.#open.add(name);
    return true;
  }

  #take(chars: number, entries = 1): boolean {
    const fits = this.#allowance.take(chars, entries);
    if (!fits) this.cut = true;
    return fits;
  }
}

type Delta = Extract<EventBody, { type: "text_delta" | "thought_delta" }>;

function isDelta(event: EventBody): event is Delta {
  return event.type === "text_delta" || event.type === "thought_delta";
}

/** The thread of a nested agent's event. */
function nestedThread(event: EventBody): string | undefined {
  return "parentThreadId" in event && event.parentThreadId !== undefined ? event.threadId : undefined;
}

function sizeOf(value: Json | object): number {
  try {
    return JSON.stringify(value).length;
  } catch {
    // a cycle, a BigInt, a getter that throws: as it would be stored
    return JSON.stringify(toJson(value)).length;
  }
}

function sameUsage(one: Usage, other: Usage): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
