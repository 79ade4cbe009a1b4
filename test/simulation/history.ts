import fc from "fast-check";

/** How an attempt of the simulation ends. */
export type AttemptEnd = "ok" | "fail" | "crash" | "limited";

/** A turn: its session (0 is none), its batch or none, the calls it makes, how its attempts end (well where nothing is said). */
export interface SimulatedTurn {
  readonly session?: number;
  readonly batch?: 1 | undefined;
  readonly calls?: number;
  readonly ends?: readonly AttemptEnd[];
  /** In ms. */
  readonly delay?: number | undefined;
  /** In ms. */
  readonly expires?: number | undefined;
  readonly maxCrashes?: number | undefined;
}

/** One thing that happens in a history. Numbers name what it may happen to by its place, modulo how many there are. */
export type Happening =
  /** A turn is submitted. */
  | readonly ["submit", SimulatedTurn]
  /** A turn is submitted once more. */
  | readonly ["again", number]
  /** A worker asks BullMQ for a job, and goes on with what it gets. */
  | readonly ["fetch", number]
  /** The actor that stands at this place goes on, over one change. */
  | readonly ["go", number]
  /** Those that wait longest go on, one after the other. */
  | readonly ["flow", number]
  /** As `go`, and the reply is lost: the call is made once more, later. */
  | readonly ["lose", number]
  | readonly ["kill", number]
  | readonly ["freeze", number]
  | readonly ["thaw", number]
  /** Time passes, and workers that are well renew their leases. */
  | readonly ["pass", number]
  /** Time passes, and nobody renews anything: Redis is away. */
  | readonly ["away", number]
  /** BullMQ's lock of a turn's job is gone, whoever holds it, and a worker asks for a job. */
  | readonly ["unlock", number]
  | readonly ["cancel", number]
  | readonly ["retry", number]
  /** Somebody retries a job in a tool of BullMQ's. */
  | readonly ["toolRetry", number]
  /** Somebody has a job that is delayed come at once in a tool of BullMQ's. */
  | readonly ["toolPromote", number]
  /** Somebody removes a job in a tool of BullMQ's. */
  | readonly ["toolRemove", number]
  | readonly ["reconcile"];

export type History = readonly Happening[];

const small = fc.nat({ max: 7 });
const end = fc.constantFrom<AttemptEnd>("ok", "ok", "fail", "crash", "limited");

/** A field that one in so many turns has. */
const one = <T>(every: number, arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> =>
  fc.oneof({ weight: every - 1, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary });

const submit = fc.record({
  session: fc.nat({ max: 2 }),
  calls: fc.nat({ max: 4 }),
  batch: one(3, fc.constant(1 as const)),
  ends: fc.array(end, { maxLength: 3 }),
  delay: one(8, fc.constantFrom(1, 5000)),
  expires: one(8, fc.constantFrom(1000, 20_000)),
  maxCrashes: one(4, fc.constantFrom(1, 2)),
});

const happening: fc.Arbitrary<Happening> = fc.oneof(
  { weight: 5, arbitrary: submit.map((turn) => ["submit", turn] as const) },
  { weight: 1, arbitrary: small.map((n) => ["again", n] as const) },
  { weight: 12, arbitrary: small.map((n) => ["fetch", n] as const) },
  { weight: 10, arbitrary: small.map((n) => ["go", n] as const) },
  { weight: 16, arbitrary: fc.nat({ max: 16 }).map((n) => ["flow", n] as const) },
  { weight: 4, arbitrary: small.map((n) => ["lose", n] as const) },
  { weight: 2, arbitrary: small.map((n) => ["kill", n] as const) },
  { weight: 3, arbitrary: small.map((n) => ["freeze", n] as const) },
  { weight: 3, arbitrary: small.map((n) => ["thaw", n] as const) },
  { weight: 4, arbitrary: fc.constantFrom(100, 1000, 4000, 12_000, 25_000).map((n) => ["pass", n] as const) },
  { weight: 1, arbitrary: fc.constantFrom(2000, 20_000).map((n) => ["away", n] as const) },
  { weight: 5, arbitrary: small.map((n) => ["unlock", n] as const) },
  { weight: 2, arbitrary: small.map((n) => ["cancel", n] as const) },
  { weight: 2, arbitrary: small.map((n) => ["retry", n] as const) },
  { weight: 1, arbitrary: small.map((n) => ["toolRetry", n] as const) },
  { weight: 2, arbitrary: small.map((n) => ["toolPromote", n] as const) },
  { weight: 1, arbitrary: small.map((n) => ["toolRemove", n] as const) },
  { weight: 2, arbitrary: fc.constant(["reconcile"] as const) },
);

/** Histories that begin with a turn. */
export const histories: fc.Arbitrary<History> = fc
  .tuple(submit, fc.array(happening, { minLength: 20, maxLength: 80, size: "max" }))
  .map(([first, rest]) => [["submit", first] as const, ...rest]);

/** A history as a test would have it. */
export function printed(history: History): string {
  return `await replay([\n${history.map((one) => `  ${JSON.stringify(one)},`).join("\n")}\n]);`;
}
