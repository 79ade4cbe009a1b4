import type { Json } from "../domain/json.ts";
import type { EventBody } from "../domain/turn-event.ts";
import { TRANSCRIPT_MAX } from "./bounded-output.ts";

/** What an event costs beside its text, in characters: an agent may say a million empty things. */
const EVENT_COST = 100;
const CUT_NOTE = "[cut: the attempt's transcript is over its limit]";

/** Bounds what one attempt can say: beyond the limit its text is cut with a note and its tools' values are left out. */
export class TranscriptBudget {
  /** True once something was left out. */
  cut = false;
  #left: number;

  constructor(max: number = TRANSCRIPT_MAX) {
    this.#left = max;
  }

  /** The event as far as there is room for it; undefined for none. Ends and usage always pass: no limit hides a cost. */
  fit(event: EventBody): EventBody | undefined {
    switch (event.type) {
      case "text_delta":
      case "thought_delta":
        return this.#fitText(event);
      case "tool_start":
        return this.#spend(0) ? { ...event, args: this.#value(event.args) } : undefined;
      case "tool_end":
        return event.result === undefined ? event : { ...event, result: this.#value(event.result) };
      case "plan":
        return this.#spend(JSON.stringify(event.plan).length) ? event : undefined;
      case "step_start":
      case "step_end":
      case "call_start":
        return this.#spend(0) ? event : undefined;
      default:
        return event;
    }
  }

  #fitText(event: Extract<EventBody, { type: "text_delta" | "thought_delta" }>): EventBody | undefined {
    if (this.cut) return undefined;
    const room = Math.max(0, this.#left - EVENT_COST);
    if (this.#spend(event.text.length)) return event;
    const part = event.text.slice(0, room);
    return { ...event, text: `${part.isWellFormed() ? part : part.slice(0, -1)}\n${CUT_NOTE}` };
  }

  #value(value: Json): Json {
    return this.#spend(JSON.stringify(value).length) ? value : CUT_NOTE;
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
