import { Worker } from "bullmq";
import { messageOf } from "../domain/error.ts";
import { laneTag } from "../ledger/keys.ts";
import { redisLedger } from "../ledger/redis-ledger.ts";
import { effect } from "../pause/effect.ts";
import { finishingBackend } from "./backend.ts";
import type { CancelWatch } from "./cancel-watch.ts";
import { Deliveries } from "./deliveries.ts";
import { LaneLimit } from "./lane-limit.ts";
import { LeaseKeeper } from "./lease-keeper.ts";
import { ownOf } from "./own-of.ts";
import { Reconciler } from "./reconciler.ts";
import type { Release, Slots } from "./slots.ts";
import { SlottedLane } from "./slotted-backend.ts";
import type { WorkerContext } from "./worker-context.ts";
import type { TurnWorkerOptions } from "./worker-options.ts";

/** BullMQ's side of a worker: a lock only says that someone should look, so it is short and a stall never fails a job. */
const BULL = {
  lockDuration: 8000,
  stalledInterval: 3000,
  maxStalledCount: 1_000_000_000,
  runRetryDelay: 1000,
  drainDelay: 5,
  // So high only that BullMQ looks at its limiter's key, which the ledger's gate sets.
  limiter: { max: 1e15, duration: 60_000 },
  // A worker that is closed while the gate is shut waits for no longer than this.
  maximumRateLimitDelay: 500,
};
/** How many error lines of BullMQ's loops are logged in a second: a full Redis makes thousands. */
const ERROR_LOG_EVERY_MS = 1000;

/** How BullMQ's side of one lane comes by its jobs. */
interface Fetching {
  readonly backend: typeof finishingBackend;
  readonly claim: (token: string) => Promise<Release | undefined>;
}

/** One lane of a worker, from which it takes turns. */
export interface LaneWorker {
  readonly lane: string;
  /** Its loop ended though nobody closed it. */
  readonly ended: boolean;
  readonly bull: Worker;
  readonly leases: LeaseKeeper;
  readonly reconciler: Reconciler;
}

/** What a lane is opened with. */
export interface LaneOptions {
  readonly worker: TurnWorkerOptions;
  readonly context: WorkerContext;
  readonly slots: Slots;
  /** Whether other lanes share the slots. */
  readonly shared: boolean;
  readonly cancels: CancelWatch;
  /** Called in every round of the lane's upkeep. */
  readonly onRound: () => Promise<void>;
}

/** Takes turns of a lane from now on. */
export function openLane(lane: string, options: LaneOptions): LaneWorker {
  const { redis, concurrency, log, locks, leases: leaseSettings } = options.worker;
  const { backend, claim } = options.shared ? slotted(lane, options) : alone(options.slots);
  const ledger = redisLedger(redis, lane, leaseSettings);
  const leases = new LeaseKeeper(ledger, log);
  let deliveries: Deliveries | undefined;
  const bull = new Worker(
    lane,
    // BullMQ counts parameters: two mean that it makes no AbortSignal, which nothing of ours needs.
    (job, token) => deliveries?.process(job, token ?? "") ?? Promise.reject(new Error("the lane is not open yet")),
    { connection: redis, prefix: laneTag(lane), concurrency, autorun: false, ...BULL, ...locks },
    backend,
  );
  deliveries = new Deliveries({ worker: options.context, ledger, leases }, claim, bull.getBackend());
  listen(lane, bull, options);
  options.cancels.listen(lane, (turn) => leases.cancelled(turn));
  leases.start();
  const reconciler = reconcilerOf(lane, options);
  reconciler.start();
  const opened = { lane, ended: false, bull, leases, reconciler };
  void bull.run().catch((error: unknown) => {
    opened.ended = true;
    log.error({ lane, error: messageOf(error) }, "the loop of a lane ended");
  });
  return opened;
}

function alone(slots: Slots): Fetching {
  return { backend: finishingBackend, claim: () => slots.take() };
}

/** Lanes that share a process's slots. */
function slotted(lane: string, { slots, worker: { redis, lanes, log } }: LaneOptions): Fetching {
  const pass = (): Promise<unknown> => effect("lane:pass", () => redis.zadd(`${laneTag(lane)}:${lane}:marker`, 0, "0"));
  const notPassed = (error: unknown): void => log.debug({ lane, error: messageOf(error) }, "a job was not passed on");
  const limit = new LaneLimit(lanes.get(lane).queue);
  const inner = new SlottedLane(slots, {
    // BullMQ has taken the marker for itself that says that there is a job: another worker may take it.
    onFull: () => void pass().catch(notPassed),
    // Where the lane's own limit was reached, every loop waits for the marker, this one too.
    onMoved: () =>
      void limit
        .isSet()
        .then((set) => (set ? pass() : undefined))
        .catch(notPassed),
  });
  return { backend: inner.backend, claim: (token) => inner.claim(token) };
}

function reconcilerOf(name: string, { worker, onRound }: LaneOptions): Reconciler {
  const { lanes, log, retention, laneConcurrency, upkeepEveryMs } = worker;
  const lane = lanes.get(name);
  return new Reconciler({
    lane,
    upkeep: lanes.upkeep(name),
    otherLanes: () => lanes.upkeeps(),
    log,
    retention,
    onRound: async () => {
      await onRound();
      const limit = ownOf(laneConcurrency ?? {}, name);
      // A tool that obliterates a queue takes its settings with it.
      if (limit !== undefined && (await lane.queue.getGlobalConcurrency()) === null)
        await lane.queue.setGlobalConcurrency(limit);
    },
    everyMs: upkeepEveryMs,
  });
}

function listen(lane: string, bull: Worker, { worker: { log } }: LaneOptions): void {
  let loggedAt = 0;
  bull.on("error", (error) => {
    if (Date.now() - loggedAt < ERROR_LOG_EVERY_MS) return;
    loggedAt = Date.now();
    log.debug({ lane, error: error.message }, "BullMQ reports an error");
  });
}
