import { DelayedError, WaitingError, type Job } from "bullmq";
import { failure } from "../domain/failure.ts";
import { messageOf } from "../domain/error.ts";
import type { EventBody } from "../domain/turn-event.ts";
import type { TurnResult } from "../domain/turn-result.ts";
import type { Begun, Delivery } from "../ledger/ledger.ts";
import { turnOfJob } from "../ledger/keys.ts";
import { finishAttempt, type AttemptEvents, type EndedAttempt, type Finished } from "./finish-attempt.ts";
import type { LaneQueue } from "./lane-set.ts";
import { placed, rebuildLost } from "./lost-attempt.ts";
import { untilAnswered } from "./patience.ts";
import { EXPIRED, settleUnrun } from "./cancel.ts";
import { runBegun } from "./run-attempt.ts";
import { parkedMs } from "./submit-chunk.ts";
import type { Release } from "./slots.ts";
import { TurnFailed, dataWithCrashed, tell } from "./tell.ts";
import type { LaneContext } from "./worker-context.ts";

/** How long a job waits whose agent this worker does not know, in ms: doubled with each delivery, up to the second. */
const OTHER_WORKER_MS = 1000;
const OTHER_WORKER_MAX_MS = 60_000;

/** What a stray job, of which nothing is stored, ends with. */
const STRAY = { v: 1, stray: true, note: "no turn of this job is stored, or another job stands for it" } as const;

/** How BullMQ's backend moves jobs; the part that deliveries use. */
type Moves = Pick<LaneQueue["backend"], "moveToDelayed">;

/** Gives the slot of a job that was fetched; undefined when there will be none. */
type Claim = (token: string) => Promise<Release | undefined>;

/** Handles the deliveries of one lane's jobs: from what begin answers to what BullMQ is told. */
export class Deliveries {
  readonly #lane: LaneContext;
  readonly #claim: Claim;
  readonly #moves: Moves;
  readonly #here = new Map<string, Promise<void>>();

  constructor(lane: LaneContext, claim: Claim, moves: Moves) {
    this.#lane = lane;
    this.#claim = claim;
    this.#moves = moves;
  }

  /**
   * BullMQ's processor. Resolves with the return value; throws WaitingError or DelayedError for a
   * job that goes on later, and the turn's failure for a failed job.
   */
  async process(job: Job, token: string): Promise<TurnResult | typeof STRAY> {
    const release = await this.#claim(token);
    try {
      if (release === undefined || this.#lane.worker.closing.aborted) return await this.#handBack(job, token);
      return await this.#alone(turnOfJob(job.id ?? ""), () => this.#deliver(job, token));
    } catch (error) {
      if (error instanceof DelayedError || error instanceof WaitingError || error instanceof TurnFailed) throw error;
      // BullMQ would fail the job for good of what is no end of the turn. Left alone, it comes again when its lock has ended.
      this.#lane.worker.log.error(
        { job: job.id, error: messageOf(error) },
        "a delivery broke off; the job comes again",
      );
      throw new WaitingError();
    } finally {
      release?.();
    }
  }

  /** One delivery of a turn at a time: a second one waits here for the first, whose attempt is alive. */
  async #alone<T>(turn: string, work: () => Promise<T>): Promise<T> {
    for (let first = this.#here.get(turn); first !== undefined; first = this.#here.get(turn)) await first;
    let done = (): void => {};
    this.#here.set(turn, new Promise((resolve) => (done = resolve)));
    try {
      return await work();
    } finally {
      this.#here.delete(turn);
      done();
    }
  }

  async #deliver(job: Job, token: string): Promise<TurnResult | typeof STRAY> {
    const { worker, ledger } = this.#lane;
    const spec = worker.specs.get(job.name);
    if (spec === undefined) return this.#notOurs(job, token);
    const delivery: Delivery = {
      turn: turnOfJob(job.id ?? ""),
      job: job.id ?? "",
      token,
      attemptsStarted: job.attemptsStarted,
    };
    for (;;) {
      const askedMs = performance.now();
      const begun = await untilAnswered(
        () => ledger.begin(delivery, worker.workerId, spec.abilities.announcesCalls),
        worker.log,
        worker.givenUp,
      );
      if (begun.kind === "expired") {
        await this.#expire(delivery.turn);
        continue;
      }
      // A process that stood still before it could read the answer may have lost the attempt since: it is asked again, and
      // the answer is the same while the attempt is this delivery's. No agent starts on an answer that is old.
      if (begun.kind === "run") {
        const old = performance.now() - askedMs > ledger.leases.leaseMs / 2;
        const result = old ? undefined : await this.#run(job, token, begun);
        if (result === undefined) continue;
        return result;
      }
      if (begun.kind !== "lost") return this.#follow(job, token, delivery.turn, begun);
      const finished = await this.#closeLost(delivery.turn, begun);
      if (finished.kind === "later")
        return this.#later(job, token, finished.afterMs, await this.#crashedData(job, delivery.turn));
    }
  }

  /** Another worker may have this agent; a job that stands for no turn waits for nobody. */
  async #notOurs(job: Job, token: string): Promise<typeof STRAY> {
    const { worker, ledger } = this.#lane;
    const row = await untilAnswered(() => ledger.row(turnOfJob(job.id ?? "")), worker.log, worker.givenUp);
    const waitMs = OTHER_WORKER_MS * 2 ** Math.min(10, Math.max(0, job.attemptsStarted - 1));
    return row?.job === job.id ? this.#later(job, token, Math.min(waitMs, OTHER_WORKER_MAX_MS)) : STRAY;
  }

  async #follow(
    job: Job,
    token: string,
    turn: string,
    begun: Exclude<Begun, { kind: "lost" | "expired" | "run" }>,
  ): Promise<TurnResult | typeof STRAY> {
    switch (begun.kind) {
      case "stray":
        return STRAY;
      case "nolock":
        // Another delivery of this job is the current one: this one moves nothing and tells nothing.
        throw new WaitingError();
      case "wait":
        return this.#later(job, token, begun.ms);
      case "gate":
        return this.#handBack(job, token);
      case "park":
        await this.#park(job, token, begun.session);
        throw new DelayedError();
      case "settled":
        return this.#tellSettled(job, turn, begun.generation);
    }
  }

  /** Runs the attempt and tells what came of it; nothing when it was lost before its agent was started. */
  async #run(job: Job, token: string, begun: Extract<Begun, { kind: "run" }>): Promise<TurnResult | undefined> {
    const { worker, ledger } = this.#lane;
    const { request, attempts, unreadable } = begun.facts;
    const spec = unreadable === undefined ? worker.specs.get(request.agent) : undefined;
    const ended = spec === undefined ? this.#refused(begun) : await runBegun(this.#lane, spec, job, begun);
    if (ended === undefined) return undefined;
    const finished = await finishAttempt(this.#lane, ended);
    if (finished.kind === "stale") throw new WaitingError();
    const data = await dataWithCrashed(ledger, request, attempts, { current: ended.record, before: job.data });
    return this.#tellFinished(job, token, finished, data);
  }

  #tellFinished(
    job: Job,
    token: string,
    finished: Exclude<Finished, { kind: "stale" }>,
    data: object | undefined,
  ): Promise<TurnResult> | TurnResult {
    switch (finished.kind) {
      case "settled":
        return tell(job, finished.result, data);
      case "later":
        return this.#later(job, token, finished.afterMs, data);
      case "handed_back":
        return this.#handBack(job, token);
    }
  }

  async #tellSettled(job: Job, turn: string, generation: number): Promise<TurnResult> {
    const { ledger, worker } = this.#lane;
    const [result] = await untilAnswered(() => ledger.results([{ turn, generation }]), worker.log, worker.givenUp);
    if (result === undefined) throw new Error(`the Result of turn ${turn}, generation ${generation}, is missing`);
    return tell(job, result, await this.#crashedData(job, turn));
  }

  /** Settles a turn that was not started in time, by whoever is first; the next begin says so. */
  async #expire(turn: string): Promise<void> {
    const { ledger, worker } = this.#lane;
    await untilAnswered(() => settleUnrun(ledger, turn, EXPIRED), worker.log, worker.givenUp);
  }

  /** Closes an attempt whose worker is gone. Any answer leads to another begin, but a back-off. */
  async #closeLost(turn: string, lost: Extract<Begun, { kind: "lost" }>): Promise<Finished> {
    const { ledger, worker } = this.#lane;
    const facts = await untilAnswered(() => ledger.facts(turn), worker.log, worker.givenUp);
    const rebuilt = await untilAnswered(
      () => rebuildLost(ledger, facts, lost.attempt, lost.announces),
      worker.log,
      worker.givenUp,
    );
    worker.log.warn(
      { turn, attempt: lost.attempt, lostWorker: rebuilt.worker },
      "a worker is gone: its attempt is closed as lost",
    );
    return finishAttempt(this.#lane, rebuilt);
  }

  async #crashedData(job: Job, turn: string): Promise<object | undefined> {
    const facts = await untilAnswered(
      () => this.#lane.ledger.facts(turn),
      this.#lane.worker.log,
      this.#lane.worker.givenUp,
    );
    return dataWithCrashed(this.#lane.ledger, facts.request, facts.attempts, { before: job.data });
  }

  /** The stored request cannot be read, or names an agent that this worker does not have, whatever the job says. */
  #refused(begun: Extract<Begun, { kind: "run" }>): EndedAttempt {
    const { facts, attempt, iteration } = begun;
    const text = facts.unreadable ?? `this worker has no agent "${facts.request.agent}"`;
    const now = Date.now();
    const record: EndedAttempt["record"] = {
      v: 1,
      attempt,
      iteration,
      agent: facts.request.agent,
      input: facts.request.input,
      output: "",
      messages: [],
      steps: [],
      plan: [],
      usage: { modelCalls: 0, toolCalls: 0, known: "reported" },
      status: "failed",
      crashed: false,
      failure: failure("config", text),
      startedAt: now,
      endedAt: now,
      durationMs: 0,
      environment: {},
    };
    const { status, crashed, output, usage } = record;
    const both: EventBody[] = [
      { type: "agent_start", agent: record.agent },
      { type: "agent_end", status, crashed, output, usage },
    ];
    const events = (last: readonly EventBody[]): Promise<AttemptEvents> => {
      const tail = placed([...both, ...last], facts.request.id, attempt, facts.seq, now);
      return Promise.resolve({ events: tail, tail });
    };
    return { facts, record, worker: this.#lane.worker.workerId, events };
  }

  /** Moves the job to delayed. Whatever BullMQ answers, the ledger stands, and a job that was not moved comes again. */
  async #later(job: Job, token: string, afterMs: number, data?: object): Promise<never> {
    const fields = data === undefined ? {} : { fieldsToUpdate: { data: JSON.stringify(data) } };
    await this.#move(job, () =>
      this.#moves.moveToDelayed(job.id ?? "", Date.now(), Math.max(1, afterMs), token, {
        skipAttempt: true,
        ...fields,
      }),
    );
    throw new DelayedError();
  }

  async #handBack(job: Job, token: string): Promise<never> {
    await this.#move(job, () => job.moveToWait(token));
    throw new WaitingError();
  }

  async #park(job: Job, token: string, session: string): Promise<void> {
    await this.#move(job, () =>
      this.#moves.moveToDelayed(job.id ?? "", Date.now(), parkedMs(), token, { skipAttempt: true }),
    );
    // The turn before may have settled between begin and the move, when there was nothing to wake.
    await untilAnswered(() => this.#lane.ledger.wake([session]), this.#lane.worker.log, this.#lane.worker.givenUp);
  }

  async #move(job: Job, move: () => Promise<unknown>): Promise<void> {
    try {
      await move();
    } catch (error) {
      this.#lane.worker.log.debug({ job: job.id, error: messageOf(error) }, "BullMQ did not move a job");
    }
  }
}
