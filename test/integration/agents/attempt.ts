import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runAttempt, type AttemptOutcome, type AttemptOrder, type RunningAttempt } from "../../../src/agent/attempt.ts";
import type { AgentSpec } from "../../../src/agent/agent-spec.ts";
import { eventFaults } from "../../../src/agent/closed-events.ts";
import type { LimitsInput } from "../../../src/domain/limits.ts";
import type { EventBody } from "../../../src/domain/turn-event.ts";
import type { StoredRequest } from "../../../src/domain/turn-request.ts";
import { TurnRecord } from "../../../src/domain/turn-record.ts";
import { markText } from "../../../src/process/mark.ts";
import { openProcesses } from "../../../src/process/processes.ts";
import { workerId } from "../../../src/process/worker-id.ts";
import { startOptions, storedRequest } from "../../agents.ts";
import { alive } from "../process/machine.ts";

/** What is not as in every attempt of these tests. */
export type AttemptOptions = Partial<Omit<AttemptOrder, "request">> & {
  readonly limits?: LimitsInput;
  readonly request?: Partial<StoredRequest>;
};

/** A worker's processes, in a store and a folder of their own. */
export class Place {
  readonly folder = mkdtempSync(join(tmpdir(), "turnq-agents-"));
  readonly store = `test-${randomUUID()}`;
  readonly worker = workerId();
  readonly processes = openProcesses({
    store: this.store,
    worker: this.worker,
    env: { ...process.env, MY_API_KEY: "very-secret-value", SHOWN: "yes" },
  });
  #turns = 0;

  get deps(): { processes: Place["processes"]; baseDir: string } {
    return { processes: this.processes, baseDir: this.folder };
  }

  /** The pids that bear a mark of this store. */
  alive(): number[] {
    return alive({ store: this.store });
  }

  start(spec: AgentSpec, more: AttemptOptions = {}): Attempt {
    const turn = `turn-${++this.#turns}`;
    const { limits, request, ...order } = more;
    const events: EventBody[] = [];
    const attempt = runAttempt({
      spec,
      request: storedRequest({
        id: turn,
        agent: spec.name,
        lane: spec.lane,
        ...request,
        limits: limits as StoredRequest["limits"],
      }),
      attempt: 1,
      iteration: 1,
      generation: 1,
      history: [],
      before: { steps: 0, toolCalls: 0, tokens: 0, costUsd: 0 },
      mark: markText({ store: this.store, lane: spec.lane, turn, attempt: 1, worker: this.worker }),
      start: startOptions({ workingDirectory: this.folder, env: {} }),
      onEvent: (event) => void events.push(event),
      ...order,
    });
    return { ...attempt, turn, events };
  }

  /** Runs an attempt to its end and checks what holds for every one. */
  async run(spec: AgentSpec, more: AttemptOptions = {}): Promise<Ended> {
    return await ended(this.start(spec, more));
  }

  /** For the end of each test: throws when a process is still there that bears a mark of the store. */
  checkEmpty(): void {
    const left = this.alive();
    if (left.length > 0) throw new Error(`processes were left: ${left.join(", ")}`);
  }

  async close(): Promise<void> {
    await this.processes.close();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

export interface Attempt extends RunningAttempt {
  readonly turn: string;
  readonly events: EventBody[];
}

export interface Ended extends AttemptOutcome {
  readonly events: readonly EventBody[];
}

/** The end of an attempt, whose record is valid and whose events are closed. */
export async function ended(attempt: Attempt): Promise<Ended> {
  const outcome = await attempt.done;
  TurnRecord.parse(outcome.record);
  const faults = eventFaults(attempt.events);
  if (faults.length > 0) throw new Error(`events are not closed: ${faults.join("; ")}`);
  return { ...outcome, events: attempt.events };
}
