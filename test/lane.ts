import { commandOf } from "../src/ledger/scripts.ts";
import { randomUUID } from "node:crypto";
import type { Redis } from "ioredis";
import { failure } from "../src/domain/failure.ts";
import type { Message } from "../src/domain/message.ts";
import type { StoredRequest } from "../src/domain/turn-request.ts";
import { endedWell, type AttemptStatus, type TurnRecord } from "../src/domain/turn-record.ts";
import type { EventBody, TurnEvent } from "../src/domain/turn-event.ts";
import { outcomeOf } from "../src/domain/turn-result.ts";
import type { Usage } from "../src/domain/usage.ts";
import { jobId, laneKey, laneTag } from "../src/ledger/keys.ts";
import type { AttemptClose, AttemptSettle, Begun, LaneLedger, TurnFacts, Unrun } from "../src/ledger/ledger.ts";
import { LEASE_SETTINGS, type LeaseSettings } from "../src/ledger/lease-settings.ts";
import { redisLedger } from "../src/ledger/redis-ledger.ts";
import { buildResult, buildUnrunResult, closedAttempt } from "../src/queue/build-result.ts";
import { contentHash } from "../src/queue/content-hash.ts";
import { LaneSet, type Lane } from "../src/queue/lane-set.ts";
import { submitChunk } from "../src/queue/submit-chunk.ts";
import { connect, whenReady } from "../src/redis/connection.ts";
import { SILENT } from "../src/telemetry/log.ts";
import { storedRequest } from "./agents.ts";
import { everywhere } from "./cluster.ts";
import { executeTwice } from "./twice.ts";

export type Run = Extract<Begun, { kind: "run" }>;

let lanes = 0;

export interface TestLaneOptions {
  /** Every call of a script is executed twice, and compared. */
  readonly twice?: boolean | undefined;
  readonly leases?: Partial<LeaseSettings> | undefined;
}

/** A lane of its own on a test's Redis, driven by hand: the parts of worker and producer are the test's. */
export class TestLane {
  readonly name: string;
  readonly redis: Redis;
  readonly lane: Lane;
  readonly ledger: LaneLedger;
  readonly #set: LaneSet;

  private constructor(redis: Redis, name: string, leases: LeaseSettings) {
    this.redis = redis;
    this.name = name;
    this.#set = new LaneSet(redis, SILENT);
    this.lane = this.#set.get(name);
    this.ledger = redisLedger(redis, name, leases);
  }

  static async open(url: string, options: TestLaneOptions = {}): Promise<TestLane> {
    const redis = everywhere(connect(url, "worker"));
    await whenReady(redis, 5000);
    lanes += 1;
    const lane = new TestLane(redis, `lane-${process.pid}-${lanes}`, { ...LEASE_SETTINGS, ...options.leases });
    if (options.twice === true) executeTwice(redis, laneTag(lane.name));
    return lane;
  }

  async close(): Promise<void> {
    await this.#set.close();
    this.redis.disconnect();
  }

  key(...parts: Parameters<typeof laneKey> extends [string, ...infer Rest] ? Rest : never): string {
    return laneKey(this.name, ...parts);
  }

  /** A key of BullMQ's in this lane. */
  bull(rest: string): string {
    return `${laneTag(this.name)}:${this.name}:${rest}`;
  }

  /** Submits turns as a producer does; the requests are filled up. */
  submit(...requests: readonly Partial<StoredRequest>[]): ReturnType<typeof submitChunk> {
    const turns = requests
      .map((more) => storedRequest({ lane: this.name, ...more }))
      .map((request) => ({ request, hash: contentHash(request) }));
    return submitChunk(this.lane, turns);
  }

  field(turn: string, name: string): Promise<string | null> {
    return this.redis.hget(this.key("row", turn), name);
  }

  async state(turn: string): Promise<string | null> {
    return await this.field(turn, "state");
  }

  /** Does on the job's keys what BullMQ does when a worker fetches it. */
  async fetch(
    turn: string,
    token: string = randomUUID(),
  ): Promise<{ turn: string; job: string; token: string; attemptsStarted: number }> {
    const job = (await this.field(turn, "job")) ?? jobId(turn);
    const attemptsStarted = await this.redis.hincrby(this.bull(job), "ats", 1);
    await this.redis.set(this.bull(`${job}:lock`), token);
    return { turn, job, token, attemptsStarted };
  }

  /** Fetches and begins. */
  async begin(turn: string, worker = "w1", announces = false): Promise<Begun> {
    return this.ledger.begin(await this.fetch(turn), worker, announces);
  }

  /** Fetches and begins a turn that must run. */
  async run(turn: string, worker = "w1"): Promise<Run> {
    const begun = await this.begin(turn, worker);
    if (begun.kind !== "run") throw new Error(`begin answered ${begun.kind}`);
    return begun;
  }

  /** Opens the next generation of a settled turn by the script alone: no job is added. */
  async openGeneration(
    turn: string,
    generation: number,
    nonce: string,
  ): Promise<{ kind: string; generation?: number }> {
    const script: (...args: unknown[]) => Promise<[string, number?]> = Reflect.get(this.redis, commandOf("retry"));
    const [kind, opened] = await script.call(
      this.redis,
      laneTag(this.name),
      turn,
      generation,
      jobId(turn, generation + 1),
      nonce,
    );
    return opened === undefined ? { kind } : { kind, generation: opened };
  }

  /** Has the open attempt's lease end now, as if its worker had been silent for long. */
  async endLease(turn: string, attempt: number): Promise<void> {
    await this.redis.zadd(this.key("leases"), "XX", 1, `${turn}#${attempt}`);
  }

  /** Books late spend as somebody does who has read the turn now, or at another rev. */
  async bookLate(
    turn: string,
    attempt: number,
    before: Usage | undefined,
    more: Usage,
    rev?: number,
  ): Promise<boolean> {
    const now = Number((await this.field(turn, "rev")) ?? 0);
    return this.ledger.bookLate({ turn, attempt, rev: rev ?? now, before, more });
  }

  /** Runs a turn to its Result. */
  async settled(turn: string, more: Partial<TurnRecord> = {}): Promise<Run> {
    const begun = await this.run(turn);
    const answer = await this.ledger.settle(settlement(begun.facts, testRecord(begun, more)));
    if (answer !== "settled") throw new Error(`settle answered ${answer}`);
    return begun;
  }
}

export const TEN_TOKENS: Usage = Object.freeze({
  inputTokens: 7,
  outputTokens: 3,
  costUsd: 0.25,
  modelCalls: 1,
  toolCalls: 0,
  known: "reported",
});

/** The account of an attempt that a test makes up. */
export function testRecord(
  begun: Pick<Run, "attempt" | "iteration" | "facts">,
  more: Partial<TurnRecord> = {},
): TurnRecord {
  const status: AttemptStatus = more.status ?? "completed";
  const well = endedWell(status);
  const messages: Message[] = [
    { role: "user", content: "hello" },
    { role: "assistant", content: `answer ${begun.iteration}` },
  ];
  return {
    v: 1,
    attempt: begun.attempt,
    iteration: begun.iteration,
    agent: begun.facts.request.agent,
    input: begun.facts.request.input,
    output: "out",
    messages: well ? messages : [],
    steps: [],
    plan: [],
    usage: TEN_TOKENS,
    status,
    crashed: !well && status !== "failed",
    ...(well ? {} : { failure: failure("agent_crash", "it crashed") }),
    startedAt: 1000,
    endedAt: 2000,
    durationMs: 1000,
    environment: {},
    ...more,
  };
}

/** Events with their places, behind a seq. */
export function testEvents(turn: string, attempt: number, after: number, ...bodies: readonly EventBody[]): TurnEvent[] {
  return bodies.map((body, i): TurnEvent => ({ turn, attempt, seq: after + i + 1, at: 1000, ...body }));
}

/** What a worker hands to the script close. */
export function closing(facts: TurnFacts, record: TurnRecord, more: Partial<AttemptClose> = {}): AttemptClose {
  const { id } = facts.request;
  const events = testEvents(id, record.attempt, facts.seq, { type: "agent_start", agent: record.agent });
  return {
    turn: id,
    attempt: record.attempt,
    nonce: randomUUID(),
    stored: { v: 1, record, events },
    summary: closedAttempt(record, "w1"),
    spends: endedWell(record.status) ? "nothing" : "attempt",
    tail: events,
    ...more,
  };
}

/** What a cancel hands to its script. */
export function unrun(facts: TurnFacts, more: Partial<Unrun> = {}): Unrun {
  const { how = "cancelled", reason = "nobody wants it" } = more;
  const { rev, request } = facts;
  const result = buildUnrunResult({ facts, how, reason, endedAt: 3000 });
  return { turn: request.id, how, nonce: randomUUID(), reason, rev, result, ...more };
}

/** What a worker hands to the script settle. */
export function settlement(facts: TurnFacts, record: TurnRecord, more: Partial<AttemptSettle> = {}): AttemptSettle {
  const close = closing(facts, record, more);
  const score = facts.request.expect === undefined ? null : { value: 1, passed: true, checks: [] };
  const result = buildResult({ turn: close.turn, facts, record, summary: close.summary, score });
  return {
    ...close,
    rev: facts.rev,
    result,
    outcome: outcomeOf(result.status),
    status: result.status,
    sessionMessages: endedWell(record.status) && facts.request.session !== undefined ? record.messages : undefined,
    ...more,
  };
}
