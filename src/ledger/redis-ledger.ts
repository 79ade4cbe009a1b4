import type { Redis } from "ioredis";
import { decode } from "./codec.ts";
import { LEASE_SETTINGS, type LeaseSettings } from "./lease-settings.ts";
import { cancelChannel, laneKey, laneTag, settledChannel } from "./keys.ts";
import { begunOf, cancellingOf, factsOf, ROW_FACTS } from "./answers.ts";
import { cancelArguments, closeArguments, settleArguments } from "./arguments.ts";
import { redisNow } from "./redis-now.ts";
import { batchCountsOf, rowOf } from "./rows.ts";
import { unreadableRequest, unreadableResult } from "./unreadable.ts";
import { commandOf, defineScripts, type ScriptName } from "./scripts.ts";
import type {
  AttemptClose,
  EventPage,
  LateSpend,
  AttemptSettle,
  BatchPlaced,
  Begun,
  Cancelling,
  ClosedGate,
  Delivery,
  GateHit,
  LaneCounts,
  LaneLimits,
  LaneLedger,
  OpenAttempt,
  OpenedAttempt,
  SettledPage,
  StatePlace,
  TurnFacts,
  TurnRow,
  Unrun,
} from "./ledger.ts";
import type { StoredAttempt } from "./codec.ts";
import type { StoredRequest } from "../domain/turn-request.ts";
import { TurnState } from "../domain/lifecycle.ts";
import { effect } from "../pause/effect.ts";
import { TurnEvent } from "../domain/turn-event.ts";
import type { TurnResult } from "../domain/turn-result.ts";
import { messageOf, TurnqError } from "../domain/error.ts";
import { addUsage } from "../domain/usage.ts";

/** An argument of a script. */
export type Argument = string | number | Buffer;
type Command = (...args: Argument[]) => Promise<unknown>;

/** The Redis implementation of {@link LaneLedger}. It does not own the connection. */
export function redisLedger(redis: Redis, lane: string, leases: LeaseSettings = LEASE_SETTINGS): LaneLedger {
  defineScripts(redis);
  return new RedisLaneLedger(redis, lane, leases);
}

class RedisLaneLedger implements LaneLedger {
  readonly lane: string;
  readonly leases: LeaseSettings;
  readonly #redis: Redis;

  constructor(redis: Redis, lane: string, leases: LeaseSettings) {
    this.#redis = redis;
    this.lane = lane;
    this.leases = leases;
  }

  #run(name: ScriptName, args: readonly Argument[], asBuffers = false): Promise<unknown> {
    const command = `${commandOf(name)}${asBuffers ? "Buffer" : ""}`;
    const script: Command = Reflect.get(this.#redis, command);
    return effect(`script:${name}`, () => script.call(this.#redis, laneTag(this.lane), ...args));
  }

  #key(kind: Parameters<typeof laneKey>[1], ...parts: (string | number)[]): string {
    return laneKey(this.lane, kind, ...parts);
  }

  async begin(delivery: Delivery, worker: string, announces: boolean): Promise<Begun> {
    const { turn, job, token, attemptsStarted } = delivery;
    const args = [
      turn,
      job,
      token,
      attemptsStarted,
      worker,
      this.leases.leaseMs,
      announces ? "1" : "0",
      this.leases.maxGapMs,
    ];
    return begunOf(turn, await this.#run("begin", args, true));
  }

  /** The row first: what is booked while the attempts are read makes its rev too old, not too new. */
  async facts(turn: string): Promise<TurnFacts> {
    const [row, request, attempts] = await Promise.all([
      this.#redis.hmget(this.#key("row", turn), ...ROW_FACTS),
      this.#redis.getBuffer(this.#key("request", turn)),
      this.#redis.hgetall(this.#key("attempts", turn)),
    ]);
    if (row[0] === null) throw new TurnqError("not_found", "there is no such turn", { where: `turn ${turn}` });
    return factsOf(turn, row, request, Object.entries(attempts).flat());
  }

  async renew(open: readonly OpenAttempt[]) {
    const pairs = open.flatMap(({ turn, attempt }) => [turn, attempt]);
    const { leaseMs, maxGapMs, graceMs } = this.leases;
    const answer = (await this.#run("renew", [leaseMs, maxGapMs, graceMs, ...pairs])) as [number[], number[]];
    const [lost, cancelled] = answer.map((places) => places.flatMap((place) => open[place - 1] ?? []));
    return { lost: lost ?? [], cancelled: cancelled ?? [] };
  }

  async append(turn: string, attempt: number, events: readonly TurnEvent[]): Promise<boolean> {
    const args = events.flatMap((event) => [event.seq, JSON.stringify(event)]);
    return (await this.#run("append", [turn, attempt, ...args])) === 1;
  }

  async close(close: AttemptClose, next: { readonly state: "delayed" | "waiting"; readonly afterMs: number }) {
    return (await this.#run("close", closeArguments(close, next))) as "closed" | "stale" | "behind" | "cancelled";
  }

  async settle(settle: AttemptSettle) {
    return (await this.#run("settle", settleArguments(settle, settledChannel(this.lane)))) as
      | "settled"
      | "stale"
      | "behind"
      | "changed";
  }

  async bookLate({ turn, attempt, rev, before, more }: LateSpend): Promise<boolean> {
    const all = before === undefined ? more : addUsage(before, more);
    return (await this.#run("late", [turn, attempt, JSON.stringify(all), rev, JSON.stringify(more)])) === 1;
  }

  async wake(sessions: readonly string[]): Promise<void> {
    await this.#run("wake", sessions);
  }

  async cancel(unrun: Unrun): Promise<Cancelling> {
    const channels = [settledChannel(this.lane), cancelChannel(this.lane)] as const;
    return cancellingOf(await this.#run("cancel", cancelArguments(unrun, this.leases.maxGapMs, ...channels)));
  }

  async closeGate({ turn, attempt, nonce, reason, afterMs, random }: GateHit): Promise<void> {
    await this.#run("gate", [turn, attempt, nonce, reason, afterMs ?? "", random]);
  }

  async gate(): Promise<ClosedGate | undefined> {
    const [[until, reason], now, waiting] = await Promise.all([
      this.#redis.hmget(this.#key("lane"), "gateUntil", "gateReason"),
      redisNow(this.#redis),
      this.#redis.zcard(this.#key("state", "waiting")),
    ]);
    if (Number(until ?? 0) <= now) return undefined;
    return { until: Number(until), reason: reason as ClosedGate["reason"], waiting };
  }

  async limit({ requestsPerMinute, tokensPerMinute }: LaneLimits): Promise<void> {
    const lane = this.#key("lane");
    const set = Object.entries({ requestsPerMinute, tokensPerMinute });
    await effect("lane:limits", () =>
      Promise.all(
        set.map(([field, value]) =>
          value === undefined ? this.#redis.hdel(lane, field) : this.#redis.hset(lane, field, value),
        ),
      ),
    );
  }

  async notePhase(turn: string, attempt: number, phase: "stopping" | "killed"): Promise<void> {
    await this.#run("phase", [turn, attempt, `${phase}At`]);
  }

  async row(turn: string): Promise<TurnRow | undefined> {
    return rowOf(this.lane, turn, await this.#redis.hgetall(this.#key("row", turn)));
  }

  async rows(turns: readonly string[]): Promise<readonly (TurnRow | undefined)[]> {
    const pipeline = this.#redis.pipeline();
    for (const turn of turns) pipeline.hgetall(this.#key("row", turn));
    const replies = (await pipeline.exec()) ?? [];
    return turns.map((turn, i) => {
      const [error, fields] = replies[i] ?? [new Error("no reply")];
      // A row that is no hash any more must not hide the others.
      if (error?.message.startsWith("WRONGTYPE") === true) return undefined;
      if (error !== null) throw error;
      return rowOf(this.lane, turn, fields as Record<string, string>);
    });
  }

  async request(turn: string): Promise<StoredRequest | undefined> {
    const bytes = await this.#redis.getBuffer(this.#key("request", turn));
    return bytes === null ? undefined : decode("request", bytes, `turn ${turn}`);
  }

  async requests(turns: readonly string[]): Promise<readonly (StoredRequest | undefined)[]> {
    const read = (bytes: Buffer, i: number): StoredRequest => decode("request", bytes, `turn ${turns[i]}`);
    const instead = (i: number, row?: TurnRow): StoredRequest => unreadableRequest(turns[i] ?? "", this.lane, row);
    return this.#readable(
      turns,
      turns.map((turn) => this.#key("request", turn)),
      read,
      instead,
    );
  }

  async result(turn: string, generation: number): Promise<TurnResult | undefined> {
    const bytes = await this.#redis.getBuffer(this.#key("result", turn, generation));
    return bytes === null ? undefined : decode("result", bytes, `turn ${turn}`);
  }

  async results(
    turns: readonly { readonly turn: string; readonly generation: number }[],
  ): Promise<readonly (TurnResult | undefined)[]> {
    const ids = turns.map(({ turn }) => turn);
    const keys = turns.map(({ turn, generation }) => this.#key("result", turn, generation));
    const read = (bytes: Buffer, i: number): TurnResult => decode("result", bytes, `turn ${ids[i]}`);
    const instead = (i: number, row: TurnRow | undefined, problem: string): TurnResult =>
      unreadableResult(ids[i] ?? "", turns[i]?.generation ?? 1, problem, row);
    return this.#readable(ids, keys, read, instead);
  }

  /** Reads a list in which one value that is corrupt is no reason not to show the others. */
  async #readable<T>(
    turns: readonly string[],
    keys: readonly string[],
    read: (bytes: Buffer, i: number) => T,
    instead: (i: number, row: TurnRow | undefined, problem: string) => T,
  ): Promise<(T | undefined)[]> {
    if (keys.length === 0) return [];
    const found = await this.#redis.mgetBuffer(...keys);
    return Promise.all(
      turns.map(async (turn, i) => {
        const bytes = found[i] ?? undefined;
        if (bytes === undefined) return undefined;
        try {
          return read(bytes, i);
        } catch (error) {
          return instead(i, await this.row(turn), messageOf(error));
        }
      }),
    );
  }

  async attempt(turn: string, attempt: number): Promise<StoredAttempt | undefined> {
    const bytes = await this.#redis.getBuffer(this.#key("record", turn, attempt));
    return bytes === null ? undefined : decode("attempt", bytes, `turn ${turn}, attempt ${attempt}`);
  }

  async opened(turn: string, attempt: number): Promise<OpenedAttempt | undefined> {
    const json = await this.#redis.hget(this.#key("attempts", turn), String(attempt));
    if (json === null) return undefined;
    return parsed(json) as OpenedAttempt | undefined;
  }

  async events(turn: string, attempt: number, after: number): Promise<EventPage | undefined> {
    const key = this.#key("events", turn, attempt);
    const entries = await this.#redis.xrange(key, `${after + 1}-0`, "+", "COUNT", 1000);
    if (entries.length === 0 && (await this.#redis.exists(key)) === 0) return undefined;
    const events = entries.flatMap(([, fields]) => TurnEvent.safeParse(parsed(fields[1] ?? "null")).data ?? []);
    const last = entries.at(-1)?.[0];
    return { events, to: last === undefined ? after : Number.parseInt(last, 10) };
  }

  async batchCounts(batch: string) {
    return batchCountsOf(await this.#redis.hgetall(this.#key("batch", batch)));
  }

  batchTurns(batch: string, after: number, limit: number): Promise<SettledPage> {
    return this.#page(this.#key("batchTurns", batch), after, limit);
  }

  batchSettled(batch: string, after: number, limit: number): Promise<SettledPage> {
    return this.#page(this.#key("batchSettled", batch), after, limit);
  }

  async #page(key: string, after: number, limit: number): Promise<SettledPage> {
    const pairs = await this.#redis.zrange(key, `(${after}`, "+inf", "BYSCORE", "LIMIT", 0, limit, "WITHSCORES");
    const turns = pairs.filter((_, i) => i % 2 === 0);
    return { turns, next: turns.length === 0 ? after : Number(pairs.at(-1)) };
  }

  async laneCounts(): Promise<LaneCounts> {
    const { options } = TurnState;
    const [oldest, ...counts] = await Promise.all([
      this.#redis.zrange(this.#key("state", "waiting"), "0", "0", "WITHSCORES"),
      ...options.map((state) => this.#redis.zcard(this.#key("state", state))),
    ]);
    const states = Object.fromEntries(options.map((state, i) => [state, counts[i] ?? 0])) as LaneCounts["states"];
    return { states, ...(oldest[1] === undefined ? {} : { oldestWaitingAt: Number(oldest[1]) }) };
  }

  async stateTurns(state: TurnState, behind: StatePlace | undefined, limit: number): Promise<readonly StatePlace[]> {
    const key = this.#key("state", state);
    const from = behind === undefined ? 0 : await this.#rankBehind(key, behind);
    return placesOf(await this.#redis.zrange(key, String(from), String(from + limit - 1), "REV", "WITHSCORES")).map(
      ([turn, at]) => ({
        turn,
        at,
      }),
    );
  }

  /** Where a turn that has left the state since, or left it and come back, was: ties are in the order of their names. */
  async #rankBehind(key: string, { turn, at }: StatePlace): Promise<number> {
    const [rank, score] = await Promise.all([this.#redis.zrevrank(key, turn), this.#redis.zscore(key, turn)]);
    if (rank !== null && Number(score) === at) return rank + 1;
    const later = await this.#redis.zcount(key, `(${at}`, "+inf");
    const same = await this.#redis.zrange(key, String(at), String(at), "BYSCORE");
    return later + same.filter((other) => other > turn).length;
  }

  async batches(limit: number): Promise<readonly BatchPlaced[]> {
    const pairs = await this.#redis.zrange(this.#key("batches"), "0", String(limit - 1), "REV", "WITHSCORES");
    return placesOf(pairs).map(([batch, at]) => ({ batch, at }));
  }

  async overdue(): Promise<number> {
    return this.#redis.zcount(this.#key("leases"), "-inf", await redisNow(this.#redis));
  }

  async overdueTurns(limit: number): Promise<readonly string[]> {
    const now = String(await redisNow(this.#redis));
    const open = await this.#redis.zrange(this.#key("leases"), "-inf", now, "BYSCORE", "LIMIT", 0, limit);
    return open.map((attempt) => attempt.replace(/#\d+$/, ""));
  }

  async expired(limit: number): Promise<readonly string[]> {
    const now = String(await redisNow(this.#redis));
    return this.#redis.zrange(this.#key("expiry"), "-inf", now, "BYSCORE", "LIMIT", 0, limit);
  }
}

/** Members and scores, as Redis lists them one after the other. */
function placesOf(pairs: readonly string[]): [member: string, score: number][] {
  return pairs.flatMap((member, i) => (i % 2 === 0 ? [[member, Number(pairs[i + 1])] as [string, number]] : []));
}

/** The value of a text of JSON; undefined when it is none. */
function parsed(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}
