import type { EventBody } from "../domain/turn-event.ts";

type Threaded = Exclude<EventBody, { type: "rolled_back" | "turn_completed" }>;

/**
 * What is wrong with an attempt's stream of events: not one `agent_start` first and one `agent_end`
 * last, a step or tool that was started and not ended, or ended and not started. Empty when nothing is.
 */
export function eventFaults(events: readonly EventBody[]): string[] {
  const faults: string[] = [];
  const open = new Set<string>();
  for (const event of events) {
    if (event.type === "rolled_back" || event.type === "turn_completed") continue;
    const started = startOf(event);
    if (started !== undefined && open.has(started)) faults.push(`${started} was started twice`);
    if (started !== undefined) open.add(started);
    const ended = endOf(event);
    if (ended !== undefined && !open.delete(ended)) faults.push(`${ended} was ended and not started`);
  }
  for (const name of open) faults.push(`${name} was not ended`);
  const own = events.filter((event) => event.type !== "rolled_back" && event.type !== "turn_completed");
  if (own[0]?.type !== "agent_start") faults.push("the first event is not agent_start");
  if (own.at(-1)?.type !== "agent_end") faults.push("the last event is not agent_end");
  const ends = own.filter((event) => event.type === "agent_end" && event.parentThreadId === undefined).length;
  if (ends !== 1) faults.push(`there are ${ends} agent_end`);
  return faults;
}

function startOf(event: Threaded): string | undefined {
  const at = event.threadId ?? "";
  if (event.type === "agent_start") return `agent ${at}`;
  if (event.type === "step_start") return `step ${at} ${event.number}`;
  return event.type === "tool_start" ? `tool ${at} ${event.id}` : undefined;
}

function endOf(event: Threaded): string | undefined {
  const at = event.threadId ?? "";
  if (event.type === "agent_end") return `agent ${at}`;
  if (event.type === "step_end") return `step ${at} ${event.number}`;
  return event.type === "tool_end" ? `tool ${at} ${event.id}` : undefined;
}
