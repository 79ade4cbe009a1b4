import type { Agent } from "../../agent/agent.ts";
import type { AgentSpec, AttemptInit } from "../../agent/agent-spec.ts";
import { normalizeThrown } from "../../agent/turn-errors.ts";
import { messageOf } from "../../domain/error.ts";
import type { StopReason } from "../../domain/stop-reason.ts";
import type { EventBody } from "../../domain/turn-event.ts";
import type { TurnRecord } from "../../domain/turn-record.ts";
import { loadModule } from "./load-module.ts";
import type { RunnerOrder, RunnerReport, TurnOrder } from "./runner-message.ts";

/** The runner's own process, as its entry point gives it. */
export interface RunnerSeat {
  readonly send: (report: RunnerReport) => void;
  /** The same; resolves when it is out of this process, so that the worker gets it whatever becomes of this one. Rejects when it is not. */
  readonly sendOut: (report: RunnerReport) => Promise<void>;
  /** Sets the mark that the turn's own processes will bear, and shows it; undefined: it shows none, since no turn runs. */
  readonly mark: (mark: string | undefined) => void;
  /** How many things keep the process alive: timers, sockets, children. */
  readonly leftOver: () => number;
  /** Bytes of memory that the process holds. */
  readonly rss: () => number;
}

/** Runs turns of one agent, one after the other, inside a runner. Returns what takes the worker's orders. */
export function createRunner(seat: RunnerSeat): (order: RunnerOrder) => void {
  let spec: AgentSpec | undefined;
  let told: { readonly id: number; readonly reason: StopReason } | undefined;
  let announced: ((mayCall: boolean) => void)[] = [];

  async function load(order: Extract<RunnerOrder, { type: "load" }>): Promise<void> {
    try {
      spec = await loadModule(order);
      const { abilities, wantsCostLogTags = false, wantsMetadata = false } = spec;
      seat.send({ type: "loaded", rss: seat.rss(), facts: { abilities, wantsCostLogTags, wantsMetadata } });
    } catch (error) {
      seat.send({ type: "not_loaded", message: messageOf(error) });
    }
  }

  async function take(order: TurnOrder): Promise<void> {
    const before = seat.leftOver();
    seat.mark(order.init.mark);
    await seat.sendOut({ type: "taken", id: order.id });
    announced = [];
    const announce = (): Promise<boolean> => new Promise((resolve) => announced.push(resolve));
    const answer = (): StopReason | undefined => (told?.id === order.id ? told.reason : undefined);
    let agent: Agent | undefined;
    try {
      if (spec === undefined) throw new Error("the runner was given a turn before its module was loaded");
      agent = spec.create(initFor(spec, order.init));
      await agent.start(order.start);
      const ended = await converse(agent, order, { shouldStop: answer, announce }, seat);
      seat.mark(undefined);
      seat.send(ended);
    } catch (thrown) {
      seat.mark(undefined);
      seat.send(endedByThrow(agent, order.id, thrown));
    }
    await ignoring(() => agent?.stop());
    // What a turn left would go off in the middle of the next one. What is ending anyway gets a moment for it.
    if (seat.leftOver() > before) await new Promise((resolve) => setImmediate(resolve));
    seat.send({ type: "idle", id: order.id, clean: seat.leftOver() <= before, rss: seat.rss() });
  }

  return (order) => {
    if (order.type === "load") void load(order);
    // One that could not even be taken: the channel is gone, and this process ends with it.
    else if (order.type === "turn") take(order).catch(() => undefined);
    else if (order.type === "stored") announced.shift()?.(order.mayCall);
    else told = { id: order.id, reason: order.reason };
  };
}

async function converse(
  agent: Agent,
  order: TurnOrder,
  ask: { readonly shouldStop: () => StopReason | undefined; readonly announce: () => Promise<boolean> },
  seat: RunnerSeat,
): Promise<RunnerReport> {
  const { id, input, history, timeoutMs, maxSteps } = order;
  let stopReason: StopReason | undefined;
  const { shouldStop, announce } = ask;
  const onEvent = (event: EventBody): Promise<boolean> | undefined => {
    if (isOwnFrame(event)) stopReason = event.type === "agent_end" ? event.stopReason : stopReason;
    else seat.send({ type: "event", id, event });
    return event.type === "call_start" ? announce() : undefined;
  };
  const record = await agent.communicate(input, { onEvent, timeoutMs, maxSteps, shouldStop, history });
  return { type: "ended", id, record, ...(stopReason === undefined ? {} : { stopReason }) };
}

/** Start and end of the agent itself: the worker's end of the pair emits its own. Those of nested agents pass. */
function isOwnFrame(event: EventBody): boolean {
  return (event.type === "agent_start" || event.type === "agent_end") && event.parentThreadId === undefined;
}

function initFor(spec: AgentSpec, init: TurnOrder["init"]): AttemptInit {
  const { costLogTags, ...rest } = init;
  return spec.wantsCostLogTags === true && costLogTags !== undefined ? { ...rest, costLogTags } : rest;
}

function endedByThrow(agent: Agent | undefined, id: number, thrown: unknown): RunnerReport {
  let record: TurnRecord | undefined;
  try {
    record = agent?.pendingTurn;
    agent?.discardPendingTurn();
  } catch {
    // the first error is the one that counts
  }
  return { type: "ended", id, record, thrown: { message: messageOf(thrown), failure: normalizeThrown(thrown) } };
}

async function ignoring(work: () => Promise<void> | undefined): Promise<void> {
  try {
    await work();
  } catch {
    // the turn's end has been told already
  }
}
