import type { Redis } from "ioredis";
import { v7 as uuidv7 } from "uuid";
import { resolveLimits, resolveRetry } from "../domain/limits.ts";
import { REQUEST_MAX_BYTES, type StoredRequest, type TurnRequest } from "../domain/turn-request.ts";
import { cellTurnId } from "../domain/cell-id.ts";
import { isTurnqError, TurnqError } from "../domain/error.ts";
import { sessionLaneKey } from "../ledger/keys.ts";
import { effect } from "../pause/effect.ts";
import type { NewTurn, Stored } from "../ledger/ledger.ts";
import { contentDifference, contentHash } from "./content-hash.ts";
import type { Directory } from "./directory.ts";
import type { LaneSet } from "./lane-set.ts";
import { submitChunk } from "./submit-chunk.ts";

/** Most turns and most bytes of requests in one MULTI. */
const CHUNK_TURNS = 100;
const CHUNK_BYTES = 1024 * 1024;

/** What became of one request. */
export interface Submitted {
  readonly id: string;
  readonly lane: string;
  /** A turn with this id and content was there before. */
  readonly duplicate: boolean;
}

interface Prepared extends NewTurn {
  readonly bytes: number;
}

/** Turns of one lane that go into the next MULTI. */
interface Chunk {
  readonly turns: Prepared[];
  bytes: number;
}

/** Stores turns. Every answer means that the turns before it are durable. */
export class Producer {
  readonly #redis: Redis;
  readonly #lanes: LaneSet;
  readonly #directory: Directory;

  constructor(redis: Redis, lanes: LaneSet, directory: Directory) {
    this.#redis = redis;
    this.#lanes = lanes;
    this.#directory = directory;
  }

  /** The request as it is stored: id, lane, limits and retry rules settled. Throws when it is refused; nothing is stored. */
  resolve(request: TurnRequest): StoredRequest {
    this.#directory.check(request);
    const agent = this.#directory.find(request.agent);
    return {
      ...request,
      v: 1,
      id: idOf(request),
      lane: request.lane ?? agent?.lane ?? request.agent,
      limits: resolveLimits(request.limits, agent?.limits),
      retry: resolveRetry(request.retry, agent?.retry),
    };
  }

  /** Stores one turn. Throws `id_conflict` when the id is taken by other content. */
  async submit(request: TurnRequest): Promise<Submitted> {
    const turn = prepare(this.resolve(request));
    const [answer] = await this.#store(turn.request.lane, [turn]);
    if (answer === "conflict") throw await this.#conflict(turn.request);
    return { id: turn.request.id, lane: turn.request.lane, duplicate: answer === "duplicate" };
  }

  /**
   * Stores a stream of requests in chunks, in order, in bounded memory, and tells of each chunk. At
   * a conflict, or a request that is refused, it throws: what came before is stored, and submitting
   * again completes it.
   */
  async *submitMany(requests: AsyncIterable<TurnRequest> | Iterable<TurnRequest>): AsyncGenerator<Submitted[]> {
    const chunks = new Map<string, Chunk>();
    let refusal: { readonly error: unknown } | undefined;
    try {
      for await (const request of requests) {
        const turn = prepare(this.resolve(request));
        const { lane } = turn.request;
        const chunk = chunks.get(lane) ?? { turns: [], bytes: 0 };
        chunks.set(lane, chunk);
        chunk.turns.push(turn);
        chunk.bytes += turn.bytes;
        if (chunk.turns.length < CHUNK_TURNS && chunk.bytes < CHUNK_BYTES) continue;
        chunks.delete(lane);
        yield await this.#submitChunk(lane, chunk.turns);
      }
    } catch (error) {
      refusal = { error };
    }
    for (const [lane, chunk] of chunks) {
      try {
        yield await this.#submitChunk(lane, chunk.turns);
      } catch (error) {
        refusal ??= { error };
        // A taken id is this lane's affair. What Redis did not answer, the others would only wait for too.
        if (!isTurnqError(error, "id_conflict")) break;
      }
    }
    if (refusal !== undefined) throw refusal.error;
  }

  /** The ids among these that are taken by other content, before anything is stored. */
  async conflicts(requests: readonly TurnRequest[]): Promise<string[]> {
    const lanes = new Map<string, StoredRequest[]>();
    for (const request of requests.map((one) => this.resolve(one))) {
      const same = lanes.get(request.lane);
      if (same === undefined) lanes.set(request.lane, [request]);
      else same.push(request);
    }
    const taken = await Promise.all(
      [...lanes].map(async ([lane, wanted]) => {
        const rows = await this.#lanes.get(lane).ledger.rows(wanted.map(({ id }) => id));
        return wanted.filter((request, i) => rows[i] !== undefined && rows[i].hash !== contentHash(request));
      }),
    );
    return taken.flat().map(({ id }) => id);
  }

  /** The fields in which a request differs from the turn that has its id; empty when there is none. */
  async difference(request: TurnRequest): Promise<string[]> {
    const { id, lane, ...asked } = this.resolve(request);
    const stored = await this.#lanes.get(lane).ledger.request(id);
    return stored === undefined ? [] : contentDifference(stored, { ...asked, id, lane });
  }

  async #submitChunk(lane: string, chunk: readonly Prepared[]): Promise<Submitted[]> {
    const answers = await this.#store(lane, chunk);
    const conflict = chunk[answers.indexOf("conflict")];
    if (conflict !== undefined) throw await this.#conflict(conflict.request);
    return chunk.map(({ request }, i) => ({ id: request.id, lane, duplicate: answers[i] === "duplicate" }));
  }

  async #store(lane: string, turns: readonly Prepared[]): Promise<Stored[]> {
    await this.#lanes.announce(lane);
    const sessions = new Set(turns.flatMap(({ request }) => request.session ?? []));
    await Promise.all([...sessions].map((session) => this.#bind(session, lane)));
    return submitChunk(this.#lanes.get(lane), turns);
  }

  /** Binds a session to the lane of its first turn; a binding that was to end, for want of turns, goes on. */
  async #bind(session: string, lane: string): Promise<void> {
    const key = sessionLaneKey(session);
    const [bound, before] = await Promise.all([
      effect("session:bind", () => this.#redis.set(key, lane, "NX")),
      this.#redis.get(key),
    ]);
    if (bound === "OK") return;
    if (before === null) return this.#bind(session, lane);
    if (before === lane) {
      await effect("session:bind", () => this.#redis.persist(key));
      return;
    }
    throw new TurnqError("session_lane", `session ${session} lives in lane ${before}, not in ${lane}`, {
      where: "session",
      hint: "A session's turns share one lane; start another session or name that lane.",
    });
  }

  async #conflict(request: StoredRequest): Promise<TurnqError> {
    const stored = await this.#lanes.get(request.lane).ledger.request(request.id);
    const fields = stored === undefined ? [] : contentDifference(stored, request);
    return new TurnqError(
      "id_conflict",
      `turn ${request.id} exists with other content: it differs in ${fields.join(", ")}`,
      {
        where: request.batch === undefined ? "id" : `batch ${request.batch.id}, sample ${request.batch.sample}`,
        hint:
          request.batch === undefined
            ? "Use another id."
            : "Use another batch id, or the input that the batch was submitted with.",
        details: { turn: request.id, fields },
      },
    );
  }
}

/** Given, or made; in a batch the cell's, so that submitting it again is the same turn. */
function idOf({ id, agent, batch }: TurnRequest): string {
  if (batch === undefined) return id ?? uuidv7();
  const cell = cellTurnId({ batch: batch.id, sample: batch.sample, agent, epoch: batch.epoch });
  if (id === undefined || id === cell) return cell;
  throw new TurnqError("invalid_request", `in a batch the id is made of the cell: ${cell}`, {
    where: "id",
    hint: "Leave it out.",
  });
}

function prepare(request: StoredRequest): Prepared {
  const bytes = Buffer.byteLength(JSON.stringify(request));
  if (bytes > REQUEST_MAX_BYTES) {
    throw new TurnqError("invalid_request", `the request has ${bytes} bytes, more than ${REQUEST_MAX_BYTES}`, {
      where: `turn ${request.id}`,
    });
  }
  return { request, hash: contentHash(request), bytes };
}
