import { toJson, type Json } from "../domain/json.ts";
import { CUT_NOTE, TRANSCRIPT_MAX, cutTranscript } from "../domain/text.ts";
import type { EventBody } from "../domain/turn-event.ts";
import type { Usage } from "../domain/usage.ts";

/** What an event costs beside its content, in UTF-16 units: an agent may say a million empty things. */
const EVENT_COST = 100;

/**
 * Bounds what one attempt can say. Beyond the limit text is cut with a note, the values of tools are
 * left out, and then events with their ends. What goes in is closed (see EventGate), and so is what
 * comes out. Model calls and usage always pass: no limit hides a cost.
 */
export class TranscriptBudget {
  /** True once something was left out. */
  cut = false;
  #left: number;
  #textCut = false;
  #usage: Usage | undefined;
  /** What was started, let through and not ended; so it is no larger than the budget. */
  readonly #open = new Set<string>();

  constructor(max: number = TRANSCRIPT_MAX) {
    this.#left = max;
  }

  /** The event as far as there is room for it; undefined for none. */
  fit(event: EventBody): EventBody | undefined {
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
        return this.#fitText(event);
      case "tool_start":
      case "tool_end":
        return this.#fitTool(event, `tool ${thread} ${event.id}`);
      case "step_start":
        return this.#starts(`step ${thread}`, 0) ? event : undefined;
      case "step_end":
        return this.#open.delete(`step ${thread}`) ? event : undefined;
      case "plan":
        return this.fits(event.plan) ? event : undefined;
      case "usage":
        return this.#fitUsage(event);
      default:
        return event;
    }
  }

  /** True when there is room for the value, which is then booked. Never throws. */
  fits(value: Json | object): boolean {
    return this.#spend(sizeOf(value));
  }

  #fitText(event: Extract<EventBody, { type: "text_delta" | "thought_delta" }>): EventBody | undefined {
    if (this.#textCut) return undefined;
    const room = Math.max(0, this.#left - EVENT_COST);
    if (this.#spend(event.text.length)) return event;
    this.#textCut = true;
    this.#left = 0;
    return { ...event, text: cutTranscript(event.text, room) };
  }

  #fitTool(event: Extract<EventBody, { type: "tool_start" | "tool_end" }>, name: string): EventBody | undefined {
    if (event.type === "tool_start") {
      if (!this.#starts(name, event.name.length + event.id.length)) return undefined;
      return this.fits(event.args) ? event : { ...event, args: CUT_NOTE };
    }
    if (!this.#open.delete(name)) return undefined;
    return event.result === undefined || this.fits(event.result) ? event : { ...event, result: CUT_NOTE };
  }

  /** Reports are cumulative: beyond the limit, one that says nothing new is left out. */
  #fitUsage(event: Extract<EventBody, { type: "usage" }>): EventBody | undefined {
    const news = this.#usage === undefined || !sameUsage(this.#usage, event.usage);
    this.#usage = event.usage;
    return this.#spend(0) || news ? event : undefined;
  }

  #fitNestedEnd(event: Extract<EventBody, { type: "agent_end" }>, thread: string): EventBody {
    this.#open.delete(`agent ${thread}`);
    return this.#spend(event.output.length) ? event : { ...event, output: CUT_NOTE };
  }

  #starts(name: string, cost: number): boolean {
    if (!this.#spend(cost)) return false;
    this.#open.add(name);
    return true;
  }

  #spend(cost: number): boolean {
    if (this.#left < cost + EVENT_COST) {
      this.cut = true;
      return false;
    }
    this.#left -= cost + EVENT_COST;
    return true;
  }
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
