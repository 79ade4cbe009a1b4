import { cellTurnId } from "../../src/domain/cell-id.ts";
import type { ChaosOptions } from "./options.ts";
import { Random } from "./random.ts";

/** The agents of the harness; each has a lane of its name. See test/fixtures/chaos/agents.mjs. */
export const AGENTS = ["inline", "tools", "module", "command", "capped"] as const;
export type AgentName = (typeof AGENTS)[number];

/** Turns at once of the lane `capped`, over all workers. */
export const CAPPED_CONCURRENCY = 2;

/** How an attempt goes, beside what happens to it: only the first attempt crashes, fails or is refused. */
export type Mode = "plain" | "crash" | "fail" | "refused" | "hang";

/** What an agent is to do; it goes along as the turn's options. */
export interface Behaviour {
  readonly mode: Mode;
  readonly calls: number;
  /** Of each call. */
  readonly tokens: number;
  /** After each call. */
  readonly pauseMs: number;
}

export interface PlannedTurn {
  readonly id: string;
  /** When it is submitted, from the start. A turn of a session waits for the one before it. */
  readonly atMs: number;
  readonly agent: AgentName;
  readonly session?: string;
  readonly batch?: { readonly id: string; readonly sample: string; readonly epoch: number };
  readonly priority?: number;
  readonly delayMs?: number;
  readonly timeoutMs?: number;
  readonly does: Behaviour;
  /** It is cancelled so long after it was accepted. */
  readonly cancelAfterMs?: number;
  /** It is retried explicitly so long after it was seen settled. */
  readonly retryAfterMs?: number;
  /** It is submitted once more. */
  readonly twice?: boolean;
}

/** `worker` is where a worker is looked for that runs turns; without one the fault is everybody's. */
export type Fault = { readonly atMs: number } & (
  | { readonly kind: "kill" | "terminate"; readonly worker: number }
  | { readonly kind: "freeze" | "block"; readonly worker: number; readonly forMs: number }
  /** Nothing passes between a worker and Redis, and nothing is closed. */
  | { readonly kind: "hold"; readonly worker: number; readonly forMs: number }
  | { readonly kind: "redis"; readonly forMs: number }
  | { readonly kind: "full"; readonly forMs: number }
  | { readonly kind: "cut"; readonly worker?: number }
  /** The reply to the next such call is lost after it was executed; `worker` -1 is the producer. */
  | { readonly kind: "reply"; readonly worker: number; readonly call: string }
);

/** A run: what is submitted, and what goes wrong. */
export interface Plan {
  readonly turns: readonly PlannedTurn[];
  readonly faults: readonly Fault[];
}

/** Replies that are lost: calls as the proxy names them. */
const WORKER_CALLS = [
  "turnq_begin",
  "turnq_settle",
  "turnq_close",
  "turnq_append",
  "turnq_renew",
  "bull_moveToActive",
  "bull_moveToFinished",
  "bull_moveToDelayed",
  "bull_retryJob",
] as const;
const PRODUCER_CALLS = ["turnq_submit", "turnq_cancel", "exec"] as const;

/** One such fault in so many seconds; each happens at least once in a run. */
const EVERY_S = {
  kill: 2.5,
  terminate: 15,
  freeze: 12,
  block: 15,
  hold: 15,
  redis: 13,
  full: 20,
  cut: 5,
  reply: 3,
} as const satisfies Record<Fault["kind"], number>;

/** Makes the plan of these options. Pure: the same options give the same plan. */
export function planOf(options: ChaosOptions): Plan {
  const turns = turnsOf(options, new Random(options.seed));
  const faults = faultsOf(options, new Random(options.seed ^ 0x5bd1e995));
  return { turns, faults };
}

function turnsOf({ seconds, turns, sessions }: ChaosOptions, random: Random): PlannedTurn[] {
  const spreadMs = seconds * 1000;
  const planned = Array.from({ length: turns }, (_, i) => plannedTurn(`t${i}`, spreadMs, sessions, random));
  return planned.toSorted((a, b) => a.atMs - b.atMs);
}

function plannedTurn(name: string, spreadMs: number, sessions: number, random: Random): PlannedTurn {
  const atMs = random.whole(0, Math.floor(spreadMs * 0.95));
  const place: Place = random.chance(0.5)
    ? sessionPlace(random.whole(0, sessions - 1))
    : { agent: random.pick(AGENTS) };
  const mode = modeOf(random);
  const free = place.session === undefined;
  const batch = random.chance(0.6) ? { id: `batch-${random.whole(1, 3)}`, sample: name, epoch: 1 } : undefined;
  return {
    // In a batch it is the cell's.
    id: batch === undefined ? name : cellTurnId({ ...batch, batch: batch.id, agent: place.agent }),
    atMs,
    ...place,
    ...(batch === undefined ? {} : { batch }),
    ...(free && random.chance(0.1) ? { priority: random.whole(1, 5) } : {}),
    ...(random.chance(0.05) ? { delayMs: random.whole(100, 2000) } : {}),
    ...(mode === "hang" ? { timeoutMs: random.whole(500, 2000) } : {}),
    does: { mode, calls: random.whole(1, 5), tokens: random.whole(1, 50), pauseMs: random.whole(10, 250) },
    ...(random.chance(0.06) ? { cancelAfterMs: random.whole(0, 1500) } : {}),
    ...(free && random.chance(0.05) ? { retryAfterMs: random.whole(0, 1000) } : {}),
    ...(random.chance(0.04) ? { twice: true } : {}),
  };
}

type Place = Pick<PlannedTurn, "agent" | "session">;

/** A session lives in one lane. */
function sessionPlace(session: number): Place {
  const agent = (["tools", "inline", "module", "tools", "command"] as const)[session % 5] ?? "tools";
  return { agent, session: `s${session}` };
}

function modeOf(random: Random): Mode {
  const roll = random.next();
  if (roll < 0.06) return "crash";
  if (roll < 0.1) return "fail";
  if (roll < 0.12) return "refused";
  if (roll < 0.15) return "hang";
  return "plain";
}

const KILLS: ReadonlySet<Fault["kind"]> = new Set(["kill", "terminate", "redis"]);

function faultsOf({ seconds, workers, kills, quick }: ChaosOptions, random: Random): Fault[] {
  const faults: Fault[] = [];
  for (const kind of Object.keys(EVERY_S) as Fault["kind"][]) {
    // Drawn even where it is left out: the other faults stay what they are.
    const count = Math.max(1, Math.round(seconds / EVERY_S[kind]));
    for (let i = 0; i < count; i += 1) {
      const atMs = Math.floor(((i + 0.1 + 0.8 * random.next()) / count) * seconds * 1000);
      const fault = faultOf(kind, atMs, random.whole(0, workers - 1), quick ? 2000 : 8000, random);
      if (kills || !KILLS.has(kind)) faults.push(fault);
    }
  }
  return faults.toSorted((a, b) => a.atMs - b.atMs);
}

function faultOf(kind: Fault["kind"], atMs: number, worker: number, leaseMs: number, random: Random): Fault {
  switch (kind) {
    case "kill":
    case "terminate":
      return { kind, atMs, worker };
    case "freeze":
    case "block":
    case "hold": {
      // Half of them outlast the lease.
      const forMs = random.chance(0.5) ? random.whole(200, leaseMs - 500) : leaseMs + random.whole(500, 4000);
      return { kind, atMs, worker, forMs };
    }
    case "redis":
      return { kind, atMs, forMs: random.whole(100, 4000) };
    case "full":
      return { kind, atMs, forMs: random.whole(500, 2500) };
    case "cut":
      return random.chance(0.4) ? { kind, atMs } : { kind, atMs, worker };
    case "reply":
      return random.chance(0.2)
        ? { kind, atMs, worker: -1, call: random.pick(PRODUCER_CALLS) }
        : { kind, atMs, worker, call: random.pick(WORKER_CALLS) };
  }
}
