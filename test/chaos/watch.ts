import { createHash } from "node:crypto";
import type { Redis } from "ioredis";
import { laneKey } from "../../src/ledger/keys.ts";
import type { StoredResult, TurnEvidence } from "./evidence.ts";
import type { PlannedTurn } from "./plan.ts";

const EVERY_MS = 200;

/** Looks at the accepted turns while the run goes on, and keeps what their Results were when they were first seen. */
export class ResultWatch {
  readonly #redis: Redis;
  readonly #accepted: ReadonlyMap<string, PlannedTurn>;
  readonly #onSettled: (turn: PlannedTurn) => void;
  readonly #seen = new Map<string, TurnEvidence["seen"][number][]>();
  /** Turns that are not settled, as of the last look. */
  #open = new Set<string>();
  #ended = false;
  #running: Promise<void> | undefined;

  /** `onSettled` is called when a turn's first generation is seen settled. */
  constructor(redis: Redis, accepted: ReadonlyMap<string, PlannedTurn>, onSettled: (turn: PlannedTurn) => void) {
    this.#redis = redis;
    this.#accepted = accepted;
    this.#onSettled = onSettled;
  }

  start(): void {
    this.#running = this.#watch();
  }

  async end(): Promise<void> {
    this.#ended = true;
    await this.#running;
  }

  /** What was seen of a turn. */
  seen(turn: string): TurnEvidence["seen"] {
    return this.#seen.get(turn) ?? [];
  }

  /** True when nothing that was accepted is open, also not by a retry. */
  async allSettled(): Promise<boolean> {
    await this.look([...this.#accepted.values()]);
    return this.#open.size === 0;
  }

  get settled(): number {
    return this.#accepted.size - this.#open.size;
  }

  async #watch(): Promise<void> {
    while (!this.#ended) {
      const unseen = [...this.#accepted.values()].filter(({ id }) => this.#open.has(id) || !this.#seen.has(id));
      await this.look(unseen);
      await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
    }
  }

  /** Reads where turns are, and the Results of those that are settled anew. */
  async look(turns: readonly PlannedTurn[]): Promise<void> {
    await Promise.all(
      turns.map(async (turn) => {
        const [state, generation, settledAt] = await this.#redis.hmget(
          laneKey(turn.agent, "row", turn.id),
          "state",
          "generation",
          "settledAt",
        );
        if (state !== "settled") {
          this.#open.add(turn.id);
          return;
        }
        this.#open.delete(turn.id);
        await this.#note(turn, Number(generation), Number(settledAt));
      }),
    );
  }

  async #note(turn: PlannedTurn, generation: number, settledAt: number): Promise<void> {
    const seen = this.#seen.get(turn.id) ?? [];
    if (seen.some((other) => other.generation === generation)) return;
    const stored = await storedResult(this.#redis, turn.agent, turn.id, generation);
    this.#seen.set(turn.id, [...seen, { ...stored, settledAt }]);
    if (generation === 1) this.#onSettled(turn);
  }
}

/** The digest of a Result as it lies in Redis; of one that is missing it is "missing". */
export async function storedResult(
  redis: Redis,
  lane: string,
  turn: string,
  generation: number,
): Promise<StoredResult> {
  const bytes = await redis.getBuffer(laneKey(lane, "result", turn, generation));
  const digest = bytes === null ? "missing" : createHash("sha256").update(bytes).digest("hex");
  return { generation, digest };
}
