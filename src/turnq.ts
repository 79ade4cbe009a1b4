import type { Redis } from "ioredis";
import type { AgentLike } from "./app.ts";
import { Batch, type BatchPort } from "./batch-handle.ts";
import type { CheckType } from "./domain/check.ts";
import { TurnqError } from "./domain/error.ts";
import { TurnRequest } from "./domain/turn-request.ts";
import { fieldProblem, problemsOf } from "./parse/problem.ts";
import { requestsOfObjects } from "./batch/input.ts";
import type { AgentDirectory, CellOptions } from "./batch/cells.ts";
import { BatchView } from "./queue/batch-view.ts";
import type { Directory, KnownAgent } from "./queue/directory.ts";
import type { LaneLimits, TurnRow } from "./ledger/ledger.ts";
import type { LaneSet } from "./queue/lane-set.ts";
import { withStored } from "./queue/partly-stored.ts";
import type { Producer, Submitted } from "./queue/producer.ts";
import type { Retention } from "./queue/retention.ts";
import { listBatches, listLanes, type BatchInfo, type LaneInfo } from "./queue/lane-view.ts";
import { retryTurn, type Retried } from "./queue/retry.ts";
import { listTurns, type TurnFilter } from "./queue/turn-list.ts";
import type { EndedHere } from "./queue/worker-context.ts";
import { WorkerRegistry, type WorkerInfo } from "./queue/worker-registry.ts";
import { ServedAgents, type Unserved } from "./queue/served-agents.ts";
import type { SettledWatch } from "./queue/settled-watch.ts";
import { TurnHandle } from "./queue/turn-handle.ts";
import { redisError } from "./redis/connection.ts";
import { WorkerHandle, type OpenWorker } from "./worker-handle.ts";

export interface WorkerOptions {
  /** The agents to run; those that openTurnq was given unless said. */
  readonly agents?: readonly AgentLike[] | undefined;
  /** Lanes to take turns from besides the agents' own: a request may name another one. */
  readonly lanes?: readonly string[] | undefined;
  /**
   * Starts also when agents cannot run here (a module that cannot be loaded, a key or a program that is not there), and
   * takes them up when they can: they are tried again every 10 s, `readiness().missing` names them. False unless given:
   * then `start` throws.
   */
  readonly allowMissing?: boolean | undefined;
  /** Turns at once, over all lanes; 10 unless given. */
  readonly concurrency?: number | undefined;
  /** Called when an attempt starts, before any code of its agent runs, with the earliest hard deadline of all, epoch ms. Must not throw. */
  readonly onStart?: ((deadlineAt: number | undefined) => void) | undefined;
  /** Called when an attempt has ended here and is stored, and again for usage that it tells later. Must not throw. */
  readonly onEnd?: ((ended: EndedHere) => void) | undefined;
  /** Turns at once over all workers, by lane. Where it is given a lane that it does not name has no such limit any more. */
  readonly laneConcurrency?: Readonly<Record<string, number>> | undefined;
  /** What providers allow over all workers, by lane. Where it is given a lane that it does not name has no limits any more. */
  readonly laneLimits?: Readonly<Record<string, LaneLimits>> | undefined;
  /** How long settled turns are kept in its lanes: `maxAgeMs` (7 days) and `maxSettled` in a lane (1,000,000). */
  readonly retention?: Retention | undefined;
}

export interface SubmitManyOptions {
  /** The batch's id; the same id again completes it. */
  readonly batch: string;
  /** The agents of every item that names none. */
  readonly agents?: readonly string[] | undefined;
  /** Repeats of every sample; 1 unless given. */
  readonly epochs?: number | undefined;
  /** The check of every item that has none. */
  readonly expect?: CheckType | undefined;
}

/** The turns of a store. */
export interface Turns {
  /** Turns as lists show them, read as they are asked for: see {@link TurnFilter}. */
  readonly list: (filter?: TurnFilter) => AsyncIterable<TurnRow>;
  /** Like `turnq.turn`. Throws `not_found`, `ambiguous`. */
  readonly get: (id: string, options?: { readonly lane?: string | undefined }) => Promise<TurnHandle>;
}

/** What turnq is made of; see app.ts. */
export interface Parts {
  readonly redis: Redis;
  readonly lanes: LaneSet;
  readonly directory: Directory;
  readonly watch: SettledWatch;
  readonly producer: Producer;
  readonly openWorker: (options: WorkerOptions) => Promise<OpenWorker>;
  readonly closeProcesses: () => Promise<void>;
}

/** A store of turns, open in this process. */
export class Turnq {
  readonly #parts: Parts;
  readonly #workers = new Set<WorkerHandle>();
  readonly #served: ServedAgents;
  #closed: Promise<void> | undefined;

  /** @internal */
  constructor(parts: Parts) {
    this.#parts = parts;
    this.#served = new ServedAgents({
      registry: new WorkerRegistry(parts.redis),
      directory: parts.directory,
      servedHere: (agent, lane) => [...this.#workers].some((worker) => worker.serves(agent, lane)),
    });
  }

  /**
   * Stores a turn; when it answers, the turn is durable. Throws `invalid_request`, `unknown_agent`,
   * `unsupported`, `id_conflict`, `session_lane`, `redis_unreachable`; nothing is stored then. Where no worker is up for
   * it the handle says so as `unserved`.
   */
  async submit(request: TurnRequest): Promise<TurnHandle> {
    const checked = checkedRequest(request);
    await this.#know(checked.agent);
    const [{ id, lane, duplicate }, unserved] = await Promise.all([
      this.#asked(() => this.#parts.producer.submit(checked)),
      this.#served.unserved(checked.agent, this.#laneOf(checked)),
    ]);
    return this.#handle(lane, id, { duplicate, unserved });
  }

  /**
   * Stores a stream of requests as a batch, each for each agent and epoch, in bounded memory. At an
   * item that is wrong it throws `invalid_input`: what came before is stored, and submitting the
   * batch again completes it.
   */
  async submitMany(items: AsyncIterable<unknown> | Iterable<unknown>, options: SubmitManyOptions): Promise<Batch> {
    const { batch, agents = [], epochs = 1, expect } = manyOf(items, options);
    await this.refreshAgents();
    await this.#parts.directory.learn(agents);
    const cells: CellOptions = { batch, agents, epochs, expect, directory: this.agentDirectory(agents) };
    const places = new Map<string, Pick<TurnRequest, "agent" | "lane">>();
    const noted = async function* (requests: AsyncIterable<TurnRequest>): AsyncGenerator<TurnRequest> {
      for await (const request of requests) {
        const { agent, lane } = request;
        places.set(`${agent} ${lane ?? ""}`, { agent, lane });
        yield request;
      }
    };
    for await (const _stored of this.store(noted(requestsOfObjects(items, cells))));
    return this.#batch(batch, await this.unserved(places.values()));
  }

  /** Those of these agents, each in the lane that its turns go to, that no worker which is up runs. Never rejects. */
  async unserved(places: Iterable<Pick<TurnRequest, "agent" | "lane">>): Promise<Unserved[]> {
    const all = [...places].map((place) => this.#served.unserved(place.agent, this.#laneOf(place)));
    return (await Promise.all(all)).filter((found) => found !== undefined);
  }

  #laneOf({ agent, lane }: Pick<TurnRequest, "agent" | "lane">): string {
    return lane ?? this.#parts.directory.find(agent)?.lane ?? agent;
  }

  /**
   * Stores requests that are checked already, chunk by chunk, and tells what became of each.
   * @internal
   */
  async *store(requests: AsyncIterable<TurnRequest>): AsyncGenerator<Submitted[]> {
    let stored = 0;
    try {
      for await (const chunk of this.#parts.producer.submitMany(requests)) {
        stored += chunk.length;
        yield chunk;
      }
    } catch (error) {
      throw withStored(asTurnqError(error, this.#parts.redis), stored);
    }
  }

  /**
   * Ids among these requests that are taken by other content.
   * @internal
   */
  conflicts(requests: readonly TurnRequest[]): Promise<string[]> {
    return this.#asked(() => this.#parts.producer.conflicts(requests));
  }

  /**
   * The fields in which a request differs from the turn that has its id.
   * @internal
   */
  difference(request: TurnRequest): Promise<string[]> {
    return this.#asked(() => this.#parts.producer.difference(request));
  }

  /**
   * The agents that are known here, for a check of input. Where none is known, those that are asked for pass.
   * With `runsHere` it also refuses an agent that lacks what it needs in this process, such as its key.
   * @internal
   */
  agentDirectory(asked: readonly string[] = [], options: { readonly runsHere?: boolean } = {}): AgentDirectory {
    const { directory } = this.#parts;
    const known = directory.names();
    const fault = (agent: string): string | undefined => directory.fault(agent, options);
    return {
      names: () => (known.length === 0 ? [...asked] : known),
      namesToTell: () => directory.namesToTell(),
      fault,
      problem: (agent, request) => (fault(agent) === undefined ? directory.problem(agent, request) : undefined),
      lane: (agent, { lane }) => this.#laneOf({ agent, lane }),
    };
  }

  /**
   * Finds out what these agents of this process can do, or all of them: a check of input can then refuse what they cannot.
   * @internal
   */
  learnAgents(names?: readonly string[]): Promise<void> {
    return this.#parts.directory.learn(names);
  }

  /** The agents that are known here: those of this process, and what workers have published. */
  knownAgents(): KnownAgent[] {
    const { directory } = this.#parts;
    return directory.names().flatMap((name) => directory.find(name) ?? []);
  }

  /** Since when no worker runs this agent, epoch ms, where that is known; undefined while one does. As of `refreshAgents`. */
  unservedSince(agent: string): number | undefined {
    return this.#parts.directory.unservedSince(agent);
  }

  /** Reads anew which agents workers have published, and which workers are up. */
  refreshAgents(): Promise<void> {
    return this.#asked(() => this.#parts.directory.refresh());
  }

  /** A turn by its id, from any process. Throws `not_found`, or `ambiguous` when two lanes have it. */
  async turn(id: string, options: { readonly lane?: string | undefined } = {}): Promise<TurnHandle> {
    const { lanes } = this.#parts;
    const names = options.lane === undefined ? await this.#asked(() => lanes.names()) : [options.lane];
    const rows = await this.#asked(() => Promise.all(names.map((name) => lanes.get(name).ledger.row(id))));
    const [row, other] = rows.filter((found) => found !== undefined);
    if (row === undefined) throw new TurnqError("not_found", "there is no such turn", { where: `turn ${id}` });
    if (other !== undefined) {
      throw new TurnqError("ambiguous", `lanes ${row.lane} and ${other.lane} both have this turn`, {
        where: `turn ${id}`,
        hint: "Name the lane.",
      });
    }
    return this.#handle(row.lane, id);
  }

  /** A batch by its id; nothing is asked of Redis yet. */
  batch(id: string): Batch {
    return this.#batch(id);
  }

  #batch(id: string, unserved: readonly Unserved[] = []): Batch {
    const { lanes } = this.#parts;
    const port: BatchPort = {
      ledgerOf: (lane) => lanes.get(lane).ledger,
      retryTurn: (turn, lane) => this.#retry(turn, lane),
      errorOf: (error) => asTurnqError(error, this.#parts.redis),
    };
    return new Batch(id, new BatchView(lanes, id), port, unserved);
  }

  /** The turns of the store, from any process. */
  get turns(): Turns {
    const { lanes } = this.#parts;
    return {
      list: (filter = {}) => this.#listed(listTurns(lanes, filter)),
      get: (id, options) => this.turn(id, options),
    };
  }

  /** The lanes of the store. */
  get lanes(): { readonly list: () => Promise<LaneInfo[]> } {
    return { list: () => this.#asked(() => listLanes(this.#parts.lanes)) };
  }

  /** The workers that are there now; for people to look at. */
  get workers(): { readonly list: () => Promise<WorkerInfo[]> } {
    return { list: () => this.#asked(() => new WorkerRegistry(this.#parts.redis).list()) };
  }

  /** The newest batches of the store. */
  get batches(): { readonly list: (options?: { readonly limit?: number | undefined }) => Promise<BatchInfo[]> } {
    return { list: ({ limit = 50 } = {}) => this.#asked(() => listBatches(this.#parts.lanes, limit)) };
  }

  /** Opens a new generation of a settled turn, given by its handle or its id. Throws `not_found`, `ambiguous`. */
  async retry(turn: Pick<TurnHandle, "id" | "lane"> | string): Promise<Retried> {
    const { id, lane } = typeof turn === "string" ? await this.turn(turn) : turn;
    return this.#retry(id, lane);
  }

  async *#listed<T>(items: AsyncIterable<T>): AsyncGenerator<T> {
    try {
      yield* items;
    } catch (error) {
      throw asTurnqError(error, this.#parts.redis);
    }
  }

  /** A worker; it takes no turn before `start`. */
  worker(options: WorkerOptions = {}): WorkerHandle {
    const worker = new WorkerHandle(() => this.#parts.openWorker(options));
    this.#workers.add(worker);
    return worker;
  }

  /** Closes workers that are still open, then the connections, whatever fails of it. The store stays. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    const workers = await Promise.allSettled([...this.#workers].map((worker) => worker.close()));
    const processes = await Promise.allSettled([this.#parts.closeProcesses()]);
    this.#parts.watch.close();
    await this.#parts.lanes.close().catch(() => undefined);
    this.#parts.redis.disconnect();
    const failed = [...workers, ...processes].find((end) => end.status === "rejected");
    if (failed !== undefined) throw failed.reason;
  }

  #retry(turn: string, lane: string): Promise<Retried> {
    return this.#asked(() => retryTurn(this.#parts.lanes.get(lane), turn));
  }

  #handle(
    lane: string,
    id: string,
    { duplicate = false, unserved }: { readonly duplicate?: boolean; readonly unserved?: Unserved | undefined } = {},
  ): TurnHandle {
    const errorOf = (error: unknown): unknown => asTurnqError(error, this.#parts.redis);
    return new TurnHandle(this.#parts.lanes.get(lane).ledger, this.#parts.watch, id, duplicate, errorOf, unserved);
  }

  /** Looks once more when the agent is not known yet: a worker may have published it since. */
  async #know(agent: string): Promise<void> {
    if (this.#parts.directory.find(agent) === undefined) await this.refreshAgents();
    await this.#parts.directory.learn([agent]);
  }

  async #asked<T>(call: () => Promise<T>): Promise<T> {
    try {
      return await call();
    } catch (error) {
      throw asTurnqError(error, this.#parts.redis);
    }
  }
}

/** TypeScript checks nothing any more once it runs. */
function manyOf(items: unknown, options: SubmitManyOptions | undefined): SubmitManyOptions {
  const iterable = Object(items) as { readonly [Symbol.iterator]?: unknown; readonly [Symbol.asyncIterator]?: unknown };
  if (iterable[Symbol.iterator] === undefined && iterable[Symbol.asyncIterator] === undefined)
    throw new TurnqError("invalid_request", "the items must be a list or another iterable", { where: "submitMany" });
  if (typeof options?.batch !== "string")
    throw new TurnqError("invalid_request", "batch: is missing", { where: "submitMany" });
  return options;
}

function checkedRequest(request: unknown): TurnRequest {
  const parsed = TurnRequest.safeParse(request);
  if (parsed.success) return parsed.data;
  throw new TurnqError("invalid_request", problemsOf(parsed.error, request, TurnRequest).map(fieldProblem).join("; "));
}

/** What a fault of Redis, as its client throws it, means to a caller; anything else as it is. */
export function asTurnqError(error: unknown, redis?: Redis): unknown {
  const name = error instanceof Error ? error.name : "";
  const fromRedis =
    name === "ReplyError" ||
    name === "MaxRetriesPerRequestError" ||
    name === "ClusterAllFailedError" ||
    /Stream isn't writeable|Cluster isn't ready|Too many Cluster redirections|None of startup nodes|Connection is closed|aborted due to connection close|Command timed out|ECONN/.test(
      String(error),
    );
  return fromRedis ? redisError(error, redis) : error;
}
