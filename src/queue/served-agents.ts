import type { WorkerRegistry, WorkerInfo } from "./worker-registry.ts";
import { isServed, missingOn } from "./worker-registry.ts";
import type { Directory } from "./directory.ts";

/** An agent that no worker which is up runs: its turns are stored, and wait until one does. */
export interface Unserved {
  readonly agent: string;
  readonly lane: string;
  /** When a worker last said that it runs this agent, epoch ms; absent when that is not known. */
  readonly sinceAt?: number | undefined;
  /** All of it as a sentence. */
  readonly message: string;
}

/** How old the list may be that is judged by, in ms. */
const MAX_AGE_MS = 1000;

export interface ServedAgentsOptions {
  readonly registry: Pick<WorkerRegistry, "list">;
  readonly directory: Pick<Directory, "publishedAt">;
  /** Whether a worker of this process takes turns of this agent in this lane. */
  readonly servedHere: (agent: string, lane: string) => boolean;
  /** Ms that only go forward; tests put a clock of their own in its place. */
  readonly monotonicMs?: (() => number) | undefined;
}

/** Knows whether anybody is there for a turn, from the list of workers, which it reads at most once a second. */
export class ServedAgents {
  readonly #options: ServedAgentsOptions;
  readonly #monotonicMs: () => number;
  #workers: Promise<readonly WorkerInfo[]> = Promise.resolve([]);
  #readMs = Number.NEGATIVE_INFINITY;

  constructor(options: ServedAgentsOptions) {
    this.#options = options;
    this.#monotonicMs = options.monotonicMs ?? (() => performance.now());
  }

  /**
   * Says so when nobody takes turns of this agent in this lane. To be asked beside the submit, so that it costs no time.
   * Never rejects: where the list cannot be read nobody is warned.
   */
  async unserved(agent: string, lane: string): Promise<Unserved | undefined> {
    if (this.#options.servedHere(agent, lane)) return undefined;
    try {
      const workers = await this.#read();
      if (isServed(workers, agent, lane)) return undefined;
      return unserved(workers, agent, lane, await this.#options.directory.publishedAt(agent));
    } catch {
      return undefined;
    }
  }

  #read(): Promise<readonly WorkerInfo[]> {
    const nowMs = this.#monotonicMs();
    if (nowMs - this.#readMs < MAX_AGE_MS) return this.#workers;
    this.#readMs = nowMs;
    const reading = this.#options.registry.list();
    // What could not be read is asked for again.
    reading.catch(() => (this.#readMs = Number.NEGATIVE_INFINITY));
    return (this.#workers = reading);
  }
}

function unserved(workers: readonly WorkerInfo[], agent: string, lane: string, sinceAt: number | undefined): Unserved {
  // Those that run the agent take turns of other lanes only.
  if (isServed(workers, agent)) {
    const message = `no worker that is up takes turns of agent "${agent}" in lane "${lane}": they wait for one`;
    return { agent, lane, message };
  }
  const since = sinceAt === undefined ? "" : `, the last one was there at ${new Date(sinceAt).toISOString()}`;
  const why = missingOn(workers).find((missing) => missing.agent === agent)?.problem;
  const lacks = why === undefined ? "" : ` (one that was to run it cannot: ${why})`;
  const message = `no worker that is up runs agent "${agent}"${lacks}: its turns wait for one${since}`;
  return { agent, lane, message, ...(sinceAt === undefined ? {} : { sinceAt }) };
}
