/**
 * Every key that turnq uses, built here and nowhere else. All keys of a lane carry the hash tag
 * `{turnq:LANE}`, so that a lane lives in one slot of a Redis Cluster. Scripts get the tag as
 * their only KEY and the kinds below as a Lua preamble (see scripts.ts).
 */

/** Kinds of a lane's keys: what stands between the tag and the id. BullMQ's own keys have `:` after the tag. */
export const KIND = {
  /** hash: the lane's last renewal, the end of the grace, counters */
  lane: "/lane",
  /** hash per turn: the small facts that lists show */
  row: "/row:",
  /** string per turn: the request, whole */
  request: "/req:",
  /** hash per turn: attempt → its summary, `N:late` → spend booked late */
  attempts: "/att:",
  /** stream per open attempt, `…:TURN:ATTEMPT` */
  events: "/ev:",
  /** string per closed attempt: record and events, `…:TURN:ATTEMPT` */
  record: "/rec:",
  /** string per generation: the TurnResult, `…:TURN:GENERATION` */
  result: "/res:",
  /** hash per session: iteration */
  session: "/ses:",
  /** list per session: the messages of each turn that succeeded */
  messages: "/msg:",
  /** sorted set per session: its unsettled turns by submission */
  sessionQueue: "/sesq:",
  /** hash per batch: counts */
  batch: "/bat:",
  /** sorted set per batch: its turns by submission */
  batchTurns: "/batt:",
  /** sorted set per batch: its settled turns by settling */
  batchSettled: "/bats:",
  /** sorted set: batches by the instant of their first turn */
  batches: "/batches",
  /** sorted set of `TURN#ATTEMPT` by the end of the lease */
  leases: "/leases",
  /** sorted set: turns that were not started yet, by the instant at which they expire */
  expiry: "/expiry",
  /** string: the worker that does the lane's upkeep, for a while */
  guard: "/guard",
  /** sorted set per state: turns by the instant they came into it */
  state: "/state:",
} as const;

/** The hash tag of a lane: BullMQ's prefix and the root of our own keys. */
export function laneTag(lane: string): string {
  return `{turnq:${lane}}`;
}

/** A key of a lane. */
export function laneKey(lane: string, kind: keyof typeof KIND, ...parts: readonly (string | number)[]): string {
  return `${laneTag(lane)}${KIND[kind]}${parts.join(":")}`;
}

/** Where settled turns are announced: the message is the turn's id. */
export function settledChannel(lane: string): string {
  return `${laneTag(lane)}/settled`;
}

/** Where workers hear which running turns they are to stop: the message is the turn's id. */
export function cancelChannel(lane: string): string {
  return `${laneTag(lane)}/cancel`;
}

/** Keys of the store as a whole. No script touches them. */
export const STORE_KEYS = {
  /** set: the names of the lanes */
  lanes: "turnq:lanes",
  /** string: the random id of this store, which marks of processes carry */
  store: "turnq:store",
  /** hash: agent → what workers published of it */
  agents: "turnq:agents",
  /** hash: worker → what it last said of itself */
  workers: "turnq:workers",
} as const;

/** The key that binds a session to a lane. */
export function sessionLaneKey(session: string): string {
  return `turnq:session:${session}`;
}

const INTEGER_LIKE = /^(-?\d+|NaN)$/;
/** BullMQ's own keys of a queue, beside which it keeps each job under its id (a test holds them against BullMQ's). */
const QUEUE_KEYS: ReadonlySet<string> = new Set([
  "active",
  "completed",
  "de",
  "delayed",
  "events",
  "failed",
  "id",
  "limiter",
  "marker",
  "meta",
  "paused",
  "pc",
  "prioritized",
  "priority",
  "repeat",
  "stalled",
  "stalled-check",
  "wait",
  "waiting-children",
]);

/**
 * The id of a turn's BullMQ job. BullMQ refuses digits alone and most ids with `:`, and a job named
 * like one of its own keys would take that key's place; neither `=` nor `+` nor `~` can be in a turn's id. Generations after the first add `~2`, `~3` …
 */
export function jobId(turn: string, generation = 1): string {
  const encoded = (INTEGER_LIKE.test(turn) || QUEUE_KEYS.has(turn) ? `=${turn}` : turn).replaceAll(":", "+");
  return generation === 1 ? encoded : `${encoded}~${generation}`;
}

/** The turn that a job belongs to. */
export function turnOfJob(job: string): string {
  const plain = job.replace(/~\d+$/, "").replaceAll("+", ":");
  return plain.startsWith("=") ? plain.slice(1) : plain;
}
