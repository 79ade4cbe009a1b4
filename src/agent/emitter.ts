import { toJson } from "../domain/json.ts";
import { messageOf } from "../domain/error.ts";
import type { ToolCall } from "../domain/step.ts";
import type { EventBody } from "../domain/turn-event.ts";
import type { PlanStep } from "../domain/turn-record.ts";
import { UNKNOWN_USAGE, USAGE_FIELDS, addUsage, readUsage, type Usage, type UsageField } from "../domain/usage.ts";
import type { StepDetails } from "./open-step.ts";
import type { AgentTurn } from "./ongoing-turn.ts";

/** What one model call used; a figure that the provider did not report is left out. */
export type CallUsage = { readonly [Field in UsageField]?: number | undefined };

/** How an agent's function tells what happens. No method throws; steps are opened as they are needed. */
export interface Emitter {
  /** A piece of the answer. */
  readonly text: (text: string) => void;
  readonly thought: (text: string) => void;
  /**
   * A model call is about to be paid for. Resolves when that is stored, so that its cost is not lost with the worker:
   * to be awaited before the call. False when the call must not be made. Never rejects.
   */
  readonly call: (model?: string) => Promise<boolean>;
  /**
   * What one model call has used; the calls are added up. What is told after the function has answered is booked beside
   * the Result. A call that was told of by `call` and not by this leaves the usage `partial`.
   */
  readonly usage: (used: CallUsage) => void;
  readonly plan: (plan: readonly PlanStep[]) => void;
  /** Runs a tool between its start and its end; gives its result, throws what it threw. */
  readonly tool: <T>(name: string, args: unknown, run: () => T | Promise<T>) => Promise<T>;
  /** A tool begins; gives its id. */
  readonly toolStart: (name: string, args?: unknown, id?: string) => string;
  readonly toolEnd: (id: string, result?: unknown, status?: ToolCall["status"]) => void;
  readonly stepStart: () => void;
  readonly stepEnd: (details?: StepDetails & { readonly success?: boolean | undefined }) => void;
  /** Any event, as it is. */
  readonly event: (event: EventBody) => void;
}

/** The emitter of one turn. */
export function emitterFor(turn: AgentTurn): Emitter {
  let used: Usage | undefined;
  let tools = 0;
  const { emit } = turn;

  const toolStart: Emitter["toolStart"] = (name, args = {}, id) => {
    tools += 1;
    const known = id ?? `tool-${tools}`;
    emit({ type: "tool_start", id: known, name, args: toJson(args) });
    return known;
  };
  const toolEnd: Emitter["toolEnd"] = (id, result, status = "ok") => {
    emit({ type: "tool_end", id, status, ...(result === undefined ? {} : { result: toJson(result) }) });
  };

  return {
    text: (text) => emit({ type: "text_delta", text }),
    thought: (text) => emit({ type: "thought_delta", text }),
    call: (model) => turn.announceCall(model),
    usage: (call) => {
      used = used === undefined ? usageOfCall(call) : addUsage(used, usageOfCall(call));
      emit({ type: "usage", usage: used });
    },
    plan: (plan) => emit({ type: "plan", plan: plan as PlanStep[] }),
    tool: async (name, args, run) => {
      const id = toolStart(name, args);
      try {
        const result = await run();
        toolEnd(id, result);
        return result;
      } catch (thrown) {
        toolEnd(id, messageOf(thrown), "error");
        throw thrown;
      }
    },
    toolStart,
    toolEnd,
    stepStart: () => emit({ type: "step_start", number: 1 }),
    stepEnd: (said) => turn.endStep(!failedBy(said), said),
    event: emit,
  };
}

/** A report that names no tokens and no cost, or that is none, leaves the call unknown: it is not guessed as 0. */
function usageOfCall(call: unknown): Usage {
  if (typeof call !== "object" || call === null) return { ...UNKNOWN_USAGE, modelCalls: 1 };
  const said = readUsage(call, { modelCalls: 1, known: "reported" });
  const amounts = USAGE_FIELDS.filter(
    (field) => said[field] !== undefined && field !== "modelCalls" && field !== "toolCalls",
  );
  return amounts.length === 0 ? { ...said, known: "unknown" } : said;
}

/** A step has succeeded unless somebody says that it has not. */
function failedBy(said: unknown): boolean {
  try {
    return typeof said === "object" && said !== null && Reflect.get(said, "success") === false;
  } catch {
    return false;
  }
}
