import type { Job } from "bullmq";
import type { Redis } from "ioredis";
import { TurnState } from "../../src/domain/lifecycle.ts";
import type { StoredRequest } from "../../src/domain/turn-request.ts";
import { jobId, laneKey } from "../../src/ledger/keys.ts";
import type { TurnRow } from "../../src/ledger/ledger.ts";
import { cancelTurn } from "../../src/queue/cancel.ts";
import { contentHash } from "../../src/queue/content-hash.ts";
import type { Lane, LaneSet } from "../../src/queue/lane-set.ts";
import { Reconciler } from "../../src/queue/reconciler.ts";
import { retryTurn } from "../../src/queue/retry.ts";
import { submitChunk } from "../../src/queue/submit-chunk.ts";
import { SILENT } from "../../src/telemetry/log.ts";
import { storedRequest } from "../agents.ts";
import type { Happening, SimulatedTurn } from "./history.ts";
import { Truth } from "./truth.ts";

type Deed = () => Promise<unknown>;

/** What is done by others than workers. */
export type Wish = Extract<
  Happening,
  readonly ["submit", SimulatedTurn] | readonly ["reconcile"] | readonly [keyof typeof MEANT, number]
>;

/** In what states a turn is for something to be done to it, as long as one is. */
const MEANT = {
  again: TurnState.options,
  unlock: ["running", "stopping"],
  cancel: ["running", "parked"],
  retry: ["settled"],
  toolRetry: ["settled"],
  toolPromote: ["parked", "delayed"],
  toolRemove: TurnState.options,
} as const satisfies Record<string, readonly TurnState[]>;

/** Producers, people with BullMQ's tools, and the reconciler. */
export class People {
  readonly #redis: Redis;
  readonly #lanes: LaneSet;
  readonly #name: string;
  readonly #lane: Lane;
  #requests: StoredRequest[] = [];
  #truth = new Truth();

  constructor(redis: Redis, lanes: LaneSet, lane: string) {
    this.#redis = redis;
    this.#lanes = lanes;
    this.#name = lane;
    this.#lane = lanes.get(lane);
  }

  /** For a new history. */
  begin(truth: Truth): void {
    this.#requests = [];
    this.#truth = truth;
  }

  /** The rows of the turns that were submitted, in their order; nothing for one that is not stored. */
  rows(): Promise<readonly (TurnRow | undefined)[]> {
    return this.#lane.ledger.rows(this.#requests.map(({ id }) => id));
  }

  /** The turn that something is to happen to, if there is any. */
  async meant(what: keyof typeof MEANT, place: number): Promise<StoredRequest | undefined> {
    const states: readonly TurnState[] = MEANT[what];
    const rows = await this.rows();
    const fitting = this.#requests.filter((_, i) => states.includes(rows[i]?.state ?? "settled"));
    const meant = fitting.length === 0 ? this.#requests : fitting;
    return meant[place % meant.length];
  }

  /** What somebody is to do; nothing when there is no turn to do it to. */
  async deed(wish: Exclude<Wish, readonly ["unlock", number]>): Promise<Deed | undefined> {
    const [what, arg] = wish;
    if (what === "reconcile") return () => this.reconcile();
    if (what === "submit") return this.#submission(arg);
    const request = await this.meant(what, arg);
    if (request === undefined) return undefined;
    const { id } = request;
    switch (what) {
      case "again":
        return () => this.#store(request);
      case "cancel":
        return () => cancelTurn(this.#lane.ledger, id);
      case "retry":
        return () => {
          this.#truth.retry(id);
          return retryTurn(this.#lane, id);
        };
      case "toolRetry":
        return () => this.#toolRetry(id);
      case "toolPromote":
        return () => this.#toolPromote(id);
      case "toolRemove":
        return () => this.#lane.queue.remove(jobId(id));
    }
  }

  /** One round. */
  async reconcile(): Promise<void> {
    // Its holder's claim ends by Redis's own clock.
    await this.#redis.del(laneKey(this.#name, "guard"));
    const upkeep = this.#lanes.upkeep(this.#name);
    await new Reconciler({
      lane: this.#lane,
      upkeep,
      otherLanes: () => Promise.resolve([upkeep]),
      log: SILENT,
    }).round();
  }

  #submission(turn: SimulatedTurn): Deed {
    const { session, batch, calls = 1, ends = ["ok"], delay, expires, maxCrashes } = turn;
    const id = `t${this.#requests.length}`;
    const request = storedRequest({
      id,
      lane: this.#name,
      input: "x",
      options: { calls, ends: [...ends] },
      retry: { maxAttempts: 3, maxCrashes: maxCrashes ?? 3, backoff: { delayMs: 1000, jitter: 0 } },
      ...(session === undefined || session === 0 ? {} : { session: `s${session}` }),
      ...(batch === undefined ? {} : { batch: { id: "b", sample: id, epoch: 1 } }),
      ...(delay === undefined ? {} : { delayMs: delay }),
      ...(expires === undefined ? {} : { expiresInMs: expires }),
    });
    this.#requests.push(request);
    return () => this.#store(request);
  }

  #store(request: StoredRequest): Promise<unknown> {
    return submitChunk(this.#lane, [{ request, hash: contentHash(request) }]);
  }

  async #jobOf(turn: string): Promise<Job | undefined> {
    const row = await this.#lane.ledger.row(turn);
    return row === undefined ? undefined : this.#lane.queue.getJob(row.job);
  }

  async #toolPromote(turn: string): Promise<void> {
    const job = await this.#jobOf(turn);
    if ((await job?.getState()) === "delayed") await job?.promote().catch(() => undefined);
  }

  async #toolRetry(turn: string): Promise<void> {
    const job = await this.#jobOf(turn);
    const state = await job?.getState();
    if (state !== "failed" && state !== "completed") return;
    this.#truth.retry(turn);
    await job?.retry(state).catch(() => undefined);
  }
}
