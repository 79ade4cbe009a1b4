import { EventCollector, type TranscriptCuts } from "../agent/event-collector.ts";
import { EventGate } from "../agent/event-gate.ts";
import { withoutCutNote } from "../domain/text.ts";
import { failure } from "../domain/failure.ts";
import type { EventBody, TurnEvent } from "../domain/turn-event.ts";
import type { TurnRecord } from "../domain/turn-record.ts";
import type { EventPage, LaneLedger, TurnFacts } from "../ledger/ledger.ts";
import { mergeDeltas } from "./event-pipe.ts";
import type { AttemptEvents, EndedAttempt } from "./finish-attempt.ts";

/**
 * Rebuilds what an attempt did whose worker is gone, from the events that it stored, and writes the
 * ends that are missing. Any worker may do it, also twice: only one close of it is accepted, and none when its worker,
 * slow and not dead, has stored more meanwhile: then it is rebuilt again.
 */
export async function rebuildLost(
  ledger: LaneLedger,
  facts: TurnFacts,
  attempt: number,
  announcesCalls: boolean,
): Promise<EndedAttempt> {
  const { request } = facts;
  const opened = (await ledger.opened(request.id, attempt)) ?? {
    worker: "unknown",
    startedAt: facts.startedAt,
    iteration: 1,
  };
  const { events: stored, to: readTo } = await storedEvents(ledger, request.id, attempt, facts.seq);
  const lost = `lost worker ${facts.crashes + 1} of the ${request.retry.maxCrashes} that maxCrashes allows`;
  const text = `the worker ${opened.worker} died or was cut off: ${lost}`;
  const end = { status: "lost", crashed: true, crashReason: text, failure: failure("worker_lost", text) } as const;

  const collector = new EventCollector({
    agent: request.agent,
    attempt,
    iteration: opened.iteration,
    input: request.input,
    startedAt: opened.startedAt,
    announcesCalls,
    maxChars: request.limits.maxTranscriptChars,
    cuts: cutsIn(stored),
  });
  for (const event of stored) collector.add(event, event.at);
  const endedAt = Math.max(Date.now(), opened.startedAt);
  const record = collector.record({ ...end, output: collector.lastText(), endedAt });

  const ends = missingEnds(request.agent, stored, record);
  const events = (last: readonly EventBody[]): Promise<AttemptEvents> => {
    const tail = placed([...ends, ...last], request.id, attempt, readTo, endedAt);
    return Promise.resolve({ events: mergeDeltas([...stored, ...tail]), tail });
  };
  return { facts, record, worker: opened.worker, readTo, events };
}

/** What of the stored events tells that there were more. */
function cutsIn(stored: readonly TurnEvent[]): TranscriptCuts {
  const textCut = stored.some((event) => event.type === "text_delta" && withoutCutNote(event.text) !== event.text);
  return { cut: textCut, textCut };
}

async function storedEvents(ledger: LaneLedger, turn: string, attempt: number, after: number): Promise<EventPage> {
  const events: TurnEvent[] = [];
  for (let from = after; ;) {
    const page = await ledger.events(turn, attempt, from);
    if (page === undefined || page.to === from) return { events, to: from };
    events.push(...page.events);
    from = page.to;
  }
}

/** What a gate adds to the stored events so that everything started is ended. */
function missingEnds(agent: string, stored: readonly TurnEvent[], record: TurnRecord): EventBody[] {
  const out: EventBody[] = [];
  const gate = new EventGate(agent, (event) => out.push(event));
  for (const event of stored) gate.emit(event);
  const replayed = stored.length === 0 ? 0 : out.length;
  if (gate.said === undefined) {
    gate.end({
      status: record.status,
      crashed: true,
      output: record.output,
      usage: record.usage,
      ...(record.failure === undefined ? {} : { failure: record.failure }),
    });
  }
  return out.slice(replayed);
}

/** Events without a place, put behind a seq. */
export function placed(
  bodies: readonly EventBody[],
  turn: string,
  attempt: number,
  after: number,
  at: number,
): TurnEvent[] {
  return bodies.map((body, i): TurnEvent => ({ turn, attempt, seq: after + i + 1, at, ...body }));
}
