import type { Message } from "../../src/domain/message.ts";
import type { Evidence, SessionEvidence, TurnEvidence } from "./evidence.ts";
import type { Violation } from "./judge.ts";
import type { TruthLine } from "./truth.ts";

/** Sessions settle in the order of their submission, without a gap, and each turn saw what went before. */
export function judgeSessions({ sessions, turns, truth }: Evidence): Violation[] {
  const byId = new Map(turns.map((turn) => [turn.id, turn]));
  return sessions.flatMap((session) => {
    const ran = session.turns.flatMap((id) => byId.get(id) ?? []).filter(({ attempts }) => attempts.length > 0);
    const say = (text: string, turn?: string): Violation => ({
      verdict: "brokenSessions",
      amount: 1,
      lane: session.lane,
      turn,
      text: `session ${session.id}: ${text}`,
    });
    return [...orderFaults(ran, say), ...iterationFaults(session, ran, truth, say), ...storedFaults(session, say)];
  });
}

type Say = (text: string, turn?: string) => Violation;

/** A turn that was cancelled while it waited ends at once: only those that ran have an order. */
function orderFaults(ran: readonly TurnEvidence[], say: Say): Violation[] {
  const faults: Violation[] = [];
  let latest = 0;
  for (const turn of ran) {
    const settledAt = turn.seen.find(({ generation }) => generation === 1)?.settledAt;
    if (settledAt === undefined) continue;
    if (settledAt < latest) faults.push(say(`turn ${turn.id} was settled before the one ahead of it`, turn.id));
    latest = Math.max(latest, settledAt);
  }
  return faults;
}

function iterationFaults(
  session: SessionEvidence,
  ran: readonly TurnEvidence[],
  truth: readonly TruthLine[],
  say: Say,
): Violation[] {
  const faults: Violation[] = [];
  let done = 0;
  for (const { id, results } of ran) {
    const result = results.find(({ generation }) => generation === 1)?.result;
    const due = done + 1;
    if (result?.iteration !== undefined && result.iteration !== due)
      faults.push(say(`turn ${id} is iteration ${result.iteration}, due is ${due}`, id));
    faults.push(...toldFaults(id, done, truth, say));
    if (result?.ok === true) done += 1;
  }
  if (session.iteration !== done) faults.push(say(`its iteration is ${session.iteration}, due is ${done}`));
  if (session.messages.length !== done)
    faults.push(say(`it holds the messages of ${session.messages.length} turns, due are ${done}`));
  return faults;
}

/** What its attempts were told when they began: the turns before it, and no other. */
function toldFaults(id: string, done: number, truth: readonly TruthLine[], say: Say): Violation[] {
  return truth.flatMap((line) => {
    if (line.what !== "start" || line.turn !== id || line.iteration === undefined) return [];
    if (line.iteration === done + 1 && line.seen === done) return [];
    const told = `was told iteration ${line.iteration} after ${line.seen} turns, due is ${done + 1} after ${done}`;
    return [say(`turn ${id}, attempt ${line.attempt}, ${told}`, id)];
  });
}

/** Its messages begin with a user's, turn by turn, as a provider wants them. */
function storedFaults({ messages }: SessionEvidence, say: Say): Violation[] {
  return messages.flatMap((part, at) =>
    part[0]?.role === "user" && part.filter(({ role }) => role === "user").length === 1
      ? []
      : [say(`the messages of iteration ${at + 1} are not one user message and what followed`)],
  );
}

/** No tool call without its result: in the messages of Results and sessions, and in the events. */
export function judgeTools({ turns, sessions }: Evidence): Violation[] {
  const ofTurns = turns.flatMap(({ id, lane, results, events }) => {
    const texts = [
      ...results.flatMap(({ generation, result }) =>
        danglingIn(result.messages).map((call) => `the Result of generation ${generation} holds ${call}`),
      ),
      ...openTools(events),
    ];
    return texts.map((text): Violation => ({ verdict: "danglingToolCalls", amount: 1, turn: id, lane, text }));
  });
  const ofSessions = sessions.flatMap(({ id, lane, messages }) =>
    danglingIn(messages.flat()).map((call): Violation => ({
      verdict: "danglingToolCalls",
      amount: 1,
      lane,
      text: `session ${id} holds ${call}`,
    })),
  );
  return [...ofTurns, ...ofSessions];
}

/** Calls that no result follows before the next message that is none, and results that answer no call. */
function danglingIn(messages: readonly Message[]): string[] {
  const found: string[] = [];
  let open = new Set<string>();
  const close = (): void => {
    found.push(...[...open].map((call) => `call ${call} without its result`));
    open = new Set();
  };
  for (const { role, toolCalls, toolCallId } of messages) {
    if (role === "tool") {
      if (!open.delete(toolCallId ?? "")) found.push(`a result of ${toolCallId}, which was not called`);
      continue;
    }
    close();
    for (const { id } of toolCalls ?? []) open.add(id);
  }
  close();
  return found;
}

function openTools(events: TurnEvidence["events"]): string[] {
  const open = new Set<string>();
  for (const event of events) {
    if (event.type === "tool_start") open.add(`${event.id} of attempt ${event.attempt}`);
    if (event.type === "tool_end") open.delete(`${event.id} of attempt ${event.attempt}`);
  }
  return [...open].map((tool) => `its events hold tool ${tool} without an end`);
}
