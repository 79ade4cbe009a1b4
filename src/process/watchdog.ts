import { Worker } from "node:worker_threads";

/** What the thread and the loop that it watches share: both instants in ms of a clock that nobody sets, the same for all threads. */
const BEAT = 0;
const DEADLINE = 1;
/** How often the loop shows that it turns, and how often that is looked at, in ms. */
const BEAT_EVERY_MS = 500;
/** How far behind a loop may be that is only busy, in ms. */
const BLOCKED_AFTER_MS = 2000;

/** The thread: plain JavaScript, since it is given as a text to where no TypeScript runs. */
const THREAD = `
  const { workerData } = require("node:worker_threads");
  const { writeSync } = require("node:fs");
  const shared = new Float64Array(workerData.shared);
  setInterval(() => {
    const now = Number(process.hrtime.bigint() / 1000000n);
    const [beat, deadline] = shared;
    if (deadline === 0 || now < deadline + workerData.limitMs || now - beat < workerData.limitMs) return;
    writeSync(2, workerData.text + "\\n");
    process.kill(process.pid, "SIGKILL");
  }, workerData.everyMs);
`;

export interface LoopWatch {
  /** Tells the thread at once what there is: to be called when a turn starts, which may block the loop right away. */
  readonly beat: () => void;
  readonly end: () => void;
}

/**
 * Ends this process when its event loop is blocked past the deadline of a turn that runs in it: no timer of the loop's own
 * can. Its leases run out then, and its turns go on elsewhere. `deadlineAt` gives the earliest deadline, epoch ms, undefined
 * when nothing runs.
 */
export function watchLoop(deadlineAt: () => number | undefined): LoopWatch {
  const shared = new SharedArrayBuffer(2 * Float64Array.BYTES_PER_ELEMENT);
  const told = new Float64Array(shared);
  const beat = (): void => {
    const now = Number(process.hrtime.bigint() / 1_000_000n);
    const at = deadlineAt();
    told[BEAT] = now;
    told[DEADLINE] = at === undefined ? 0 : now + (at - Date.now());
  };
  beat();
  const timer = setInterval(beat, BEAT_EVERY_MS);
  timer.unref();
  const text =
    "turnq: the event loop is blocked past the deadline of a turn; this worker ends, its turns go on elsewhere";
  const thread = new Worker(THREAD, {
    eval: true,
    workerData: { shared, everyMs: BEAT_EVERY_MS, limitMs: BLOCKED_AFTER_MS, text },
  });
  thread.unref();
  return {
    beat,
    end: () => {
      clearInterval(timer);
      void thread.terminate();
    },
  };
}
