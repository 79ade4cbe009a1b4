import type { Job } from "bullmq";
import { runAttempt, type RunningAttempt } from "../agent/attempt.ts";
import type { Spent } from "../agent/turn-monitor.ts";
import type { StopRequest } from "../agent/verdict.ts";
import type { AgentSpec } from "../agent/agent-spec.ts";
import { wholeCost } from "../domain/cost.ts";
import { messageOf } from "../domain/error.ts";
import { TRANSCRIPT_MAX } from "../domain/text.ts";
import type { EventBody } from "../domain/turn-event.ts";
import { totalTokens, type Usage } from "../domain/usage.ts";
import type { Begun, TurnFacts } from "../ledger/ledger.ts";
import { effect } from "../pause/effect.ts";
import { EventPipe } from "./event-pipe.ts";
import type { EndedAttempt } from "./finish-attempt.ts";
import { LateUsage } from "./late-usage.ts";
import { untilAnswered } from "./patience.ts";
import { Progress } from "./progress.ts";
import type { AttemptName, LaneContext, RunningTurn } from "./worker-context.ts";

type Run = Extract<Begun, { kind: "run" }>;

/**
 * Runs one attempt to its end. Never rejects for what the agent does. Answers nothing when the attempt was lost before its
 * agent was started.
 */
export async function runBegun(
  lane: LaneContext,
  spec: AgentSpec,
  job: Job,
  begun: Run,
): Promise<EndedAttempt | undefined> {
  const { worker, leases } = lane;
  const { facts, attempt } = begun;
  const { request } = facts;
  const name = { lane: request.lane, turn: request.id, attempt };
  // What is told before there is an agent to stop: killing what earlier attempts left may take longer than a lease.
  const early = new Set<StopRequest>();
  let stop = (reason: StopRequest): void => void early.add(reason);
  const release = leases.hold(request.id, attempt, {
    onLost: () => stop("lease_lost"),
    onCancel: () => stop("cancelled"),
  });
  try {
    // All on this machine that bears the turn's mark.
    if (attempt > 1) await effect("processes:sweep", () => worker.processes.sweepEarlier(name));
    if (early.has("lease_lost")) {
      release();
      return undefined;
    }
    const ended = { ...name, agent: request.agent, batch: request.batch?.id };
    const late = new LateUsage(lane, { turn: request.id, attempt }, (usage) =>
      worker.onEnd?.({ ...ended, usage, first: false, late: true }),
    );
    const { running, progress, pipe } = started(lane, spec, job, begun, name, (usage) => late.take(usage));
    stop = (reason) => {
      running.stop(reason);
      if (reason !== "lease_lost") notePhase(lane, name, "stopping");
    };
    for (const reason of early) stop(reason);
    const here: RunningTurn = {
      ...name,
      deadlineMs: performance.now() + request.limits.timeoutMs,
      shutDown: () => stop("shutdown"),
      kill: () => running.kill("shutdown"),
    };
    worker.running.add(here);
    worker.onStart?.();
    if (worker.closing.aborted) here.shutDown();
    const { record, stopReason } = await running.done;
    progress.end();
    const letGo = (): void => {
      release();
      worker.running.delete(here);
      const first = facts.attempts.every((before) => before.worker !== worker.workerId);
      worker.onEnd?.({ ...ended, usage: record.usage, first, late: false });
      late.attemptStored();
    };
    return { facts, record, worker: worker.workerId, stopReason, events: (last) => pipe.end(last), letGo };
  } catch (error) {
    release();
    throw error;
  }
}

interface Started {
  readonly running: RunningAttempt;
  readonly progress: Progress;
  readonly pipe: EventPipe;
}

/** Starts the agent, whose events go into the ledger. */
function started(
  lane: LaneContext,
  spec: AgentSpec,
  job: Job,
  begun: Run,
  name: AttemptName,
  onLateUsage: (usage: Usage) => void,
): Started {
  const { worker, ledger } = lane;
  const { facts, attempt } = begun;
  const { request } = facts;
  const pipe = new EventPipe({
    turn: request.id,
    attempt,
    after: facts.seq,
    append: (events) =>
      untilAnswered(() => ledger.append(request.id, attempt, events), worker.log, worker.givenUp).catch(() => false),
    maxChars: request.limits.maxTranscriptChars ?? TRANSCRIPT_MAX,
  });
  const progress = new Progress(job, attempt, worker.log);
  const running = runAttempt({
    spec,
    request,
    attempt,
    iteration: begun.iteration,
    generation: facts.generation,
    history: begun.history,
    before: usedBefore(facts),
    mark: worker.processes.mark(name),
    start: worker.start,
    onLateUsage,
    onKill: (reason) => {
      if (reason === "cancelled") notePhase(lane, name, "killed");
    },
    onEvent: (event: EventBody) => {
      progress.see(event);
      return pipe.push(event);
    },
  });
  return { running, progress, pipe };
}

/** Shows how far a cancel or a shutdown has come. Not awaited, and nothing depends on it. */
function notePhase(
  { ledger, worker }: LaneContext,
  { turn, attempt }: AttemptName,
  phase: "stopping" | "killed",
): void {
  ledger.notePhase(turn, attempt, phase).catch((error: unknown) => {
    worker.log.debug({ turn, attempt, phase, error: messageOf(error) }, "the phase of a stop was not noted");
  });
}

/** What earlier attempts of this generation used, for the limits that count over all of them. */
function usedBefore(facts: TurnFacts): Spent {
  const before = { steps: 0, toolCalls: 0, tokens: 0, costUsd: 0 };
  for (const attempt of facts.attempts) {
    if (attempt.attempt < facts.firstAttempt) continue;
    before.steps += attempt.steps;
    before.toolCalls += attempt.usage.toolCalls;
    before.tokens += totalTokens(attempt.usage) ?? 0;
    before.costUsd = wholeCost(before.costUsd + (attempt.usage.costUsd ?? 0));
  }
  return before;
}
