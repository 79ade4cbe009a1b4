import type { LeaseKeeper } from "./lease-keeper.ts";
import type { MissingAgent } from "./missing-agents.ts";

/**
 * Whether a worker takes turns now, and if not, why:
 * `not_started`: `start` has not ended yet; `closing`: it takes no more; `agents_missing`: it may do without the agents
 * that cannot run here, and none of its agents can; `lane_ended`: the loop of a lane ended, which is a fault of ours;
 * `redis_unreachable`: leases have not been renewed and Redis is silent; `redis_refused`: Redis answers the renewals with
 * an error, as a full one or a replica does. Running turns go on in all of these but `closing`.
 */
export type Readiness = (
  | { readonly ready: true }
  | {
      readonly ready: false;
      readonly reason:
        | "not_started"
        | "closing"
        | "agents_missing"
        | "lane_ended"
        | "redis_unreachable"
        | "redis_refused";
      /** What it means, with the lane and what Redis said; for people. */
      readonly message: string;
      /** How long no renewal of the lane's leases has been answered, in ms; only where Redis is the reason. */
      readonly silentMs?: number | undefined;
    }
) & {
  /** Agents that it does without for now, and why; absent when there are none. They are tried again every 10 s. */
  readonly missing?: readonly MissingAgent[] | undefined;
};

/** What is known of one lane of a worker. */
export interface LaneFacts {
  readonly lane: string;
  readonly leases: Pick<LeaseKeeper, "silentMs" | "refusal" | "patienceMs">;
  readonly ended: boolean;
}

/** What is known of a worker's agents. */
export interface AgentFacts {
  /** How many it runs. */
  readonly running: number;
  readonly missing: readonly MissingAgent[];
}

/** Judges by what was observed, the last renewals that Redis answered, not by the state of a socket: a black hole keeps it open. */
export function readinessOf(lanes: readonly LaneFacts[], { running, missing }: AgentFacts): Readiness {
  const readiness = lanesReadiness(lanes);
  if (missing.length === 0) return readiness;
  if (!readiness.ready || running > 0) return { ...readiness, missing };
  const named = missing.map(({ agent, problem }) => `${agent} (${problem})`).join("; ");
  return { ready: false, reason: "agents_missing", message: `none of its agents can run: ${named}`, missing };
}

function lanesReadiness(lanes: readonly LaneFacts[]): Readiness {
  for (const { lane, leases, ended } of lanes) {
    if (ended) return { ready: false, reason: "lane_ended", message: `the loop of lane ${lane} has ended` };
    const silentMs = Math.round(leases.silentMs);
    if (silentMs <= leases.patienceMs) continue;
    const since = `the leases of lane ${lane} have not been renewed for ${silentMs} ms`;
    const refusal = leases.refusal;
    return refusal === undefined
      ? { ready: false, reason: "redis_unreachable", message: `${since}: Redis does not answer`, silentMs }
      : { ready: false, reason: "redis_refused", message: `${since}: Redis answered ${refusal}`, silentMs };
  }
  return { ready: true };
}
