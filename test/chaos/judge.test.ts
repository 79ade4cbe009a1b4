import { expect, test } from "vitest";
import type { Message } from "../../src/domain/message.ts";
import type { TurnEvent, EventBody } from "../../src/domain/turn-event.ts";
import type { TurnResult } from "../../src/domain/turn-result.ts";
import type { Usage } from "../../src/domain/usage.ts";
import type { ClosedAttempt } from "../../src/ledger/ledger.ts";
import type { Evidence, LaneEvidence, SessionEvidence, TurnEvidence } from "./evidence.ts";
import { judge, type Verdict } from "./judge.ts";
import type { TruthLine } from "./truth.ts";

const usage = (tokens: number, known: Usage["known"] = "reported"): Usage => ({
  inputTokens: tokens,
  modelCalls: 1,
  toolCalls: 1,
  known,
});

function attempt(more: Partial<ClosedAttempt> = {}): ClosedAttempt {
  const place = { attempt: 1, status: "completed", worker: "w", startedAt: 100, endedAt: 200 } as const;
  return { ...place, usage: usage(10), crashed: false, steps: 1, ...more };
}

const MESSAGES: readonly Message[] = [
  { role: "user", content: "in" },
  { role: "assistant", content: "", toolCalls: [{ id: "c1", name: "look", args: {} }] },
  { role: "tool", content: "found", toolCallId: "c1" },
  { role: "assistant", content: "out" },
];

function result(more: Partial<TurnResult> = {}): TurnResult {
  return {
    v: 1,
    turn: "one",
    generation: 1,
    agent: "module",
    output: "out",
    messages: [...MESSAGES],
    usage: usage(10),
    ok: true,
    status: "completed",
    stepsUsed: 1,
    cancelled: false,
    budgetExhausted: false,
    planSteps: [],
    iteration: 1,
    attempts: [attempt()],
    wastedUsage: usage(0),
    startedAt: 100,
    endedAt: 200,
    durationMs: 100,
    queuedMs: 0,
    ...more,
  };
}

function events(...bodies: readonly EventBody[]): TurnEvent[] {
  return bodies.map((body, i): TurnEvent => ({ turn: "one", attempt: 1, seq: i + 1, at: 100 + i, ...body }));
}

const EVENTS = events(
  { type: "agent_start", agent: "module" },
  { type: "tool_start", id: "c1", name: "look", args: {} },
  { type: "tool_end", id: "c1", status: "ok" },
  { type: "agent_end", status: "completed", crashed: false, output: "out", usage: usage(10) },
  { type: "turn_completed", outcome: "ok", ok: true, generation: 1 },
);

function turn(more: Partial<TurnEvidence> = {}): TurnEvidence {
  return {
    id: "one",
    lane: "module",
    session: "s",
    state: "settled",
    generation: 1,
    retries: 0,
    attempts: [attempt()],
    results: [{ generation: 1, digest: "d", result: result() }],
    seen: [{ generation: 1, digest: "d", settledAt: 200 }],
    events: EVENTS,
    ...more,
  };
}

const START: TruthLine = { what: "start", turn: "one", attempt: 1, at: 100, pid: 7, iteration: 1, seen: 0 };
const SPEND: TruthLine = { what: "spend", turn: "one", attempt: 1, tokens: 10 };
const TRUTH: readonly TruthLine[] = [START, SPEND, { what: "end", turn: "one", attempt: 1 }];
const SESSION: SessionEvidence = { id: "s", lane: "module", turns: ["one"], iteration: 1, messages: [MESSAGES] };
const LANE: LaneEvidence = { lane: "module", active: [], locks: [], leases: [], problems: [] };

/** A run of one turn in which all is well, but for what is given. */
function evidence(more: Partial<Evidence> = {}): Evidence {
  const slots = [{ what: "over all workers", due: 4, got: 4 }];
  const rest = { slots, running: 0, orphans: [], workerFaults: [] };
  return { turns: [turn()], sessions: [SESSION], lanes: [LANE], truth: TRUTH, ...rest, ...more };
}

/** Evidence of one turn that is not as it must be. */
const doctored = (more: Partial<TurnEvidence>): Evidence => evidence({ turns: [turn(more)] });
const withResult = (more: Partial<TurnResult>): Evidence =>
  doctored({ results: [{ generation: 1, digest: "d", result: result(more) }] });
const withLane = (more: Partial<LaneEvidence>): Evidence => evidence({ lanes: [{ ...LANE, ...more }] });
const withSession = (more: Partial<SessionEvidence>): Evidence => evidence({ sessions: [{ ...SESSION, ...more }] });

const NOTHING_STORED = turn({ state: undefined, session: undefined, attempts: [], results: [], seen: [], events: [] });

const CASES: readonly (readonly [Verdict, number, string, Evidence])[] = [
  [
    "lost",
    1,
    "an accepted turn of which nothing is stored",
    evidence({ turns: [NOTHING_STORED], sessions: [], truth: [] }),
  ],
  ["lost", 1, "a turn that waits at the end", doctored({ state: "waiting" })],
  ["lost", 1, "a settled turn without its Result", doctored({ generation: 2, retries: 1 })],
  ["lost", 1, "an attempt without its end", doctored({ events: EVENTS.filter(({ type }) => type !== "agent_end") })],
  ["lost", 1, "an index that does not agree", withLane({ problems: ['index of settled: found [], due ["one"]'] })],
  [
    "duplicated",
    1,
    "a Result that has changed",
    doctored({ seen: [{ generation: 1, digest: "other", settledAt: 200 }] }),
  ],
  [
    "duplicated",
    1,
    "a generation that nobody asked for",
    doctored({
      generation: 2,
      results: [1, 2].map((generation) => ({ generation, digest: "d", result: result({ generation }) })),
    }),
  ],
  ["duplicated", 1, "a generation completed twice", doctored({ events: [...EVENTS, ...EVENTS.slice(-1)] })],
  ["duplicated", 1, "an attempt that started twice", evidence({ truth: [START, ...TRUTH] })],
  ["duplicated", 1, "a batch that counts a turn twice", withLane({ problems: ["settled of batch b: found 2, due 1"] })],
  [
    "rerunAfterSettle",
    1,
    "an attempt that starts after the settle",
    evidence({ truth: [{ ...START, at: 201 }, SPEND] }),
  ],
  ["usageOverTokens", 4, "more tokens booked than spent", evidence({ truth: [START, { ...SPEND, tokens: 6 }] })],
  ["usageOverTokens", 3, "late usage that was never spent", doctored({ attempts: [attempt({ late: usage(3) })] })],
  ["usageOverTokens", 5, "a Result that says more than its attempts", withResult({ usage: usage(15) })],
  [
    "usageGapTokens",
    2,
    "fewer tokens booked than spent, by an attempt that knows it all",
    evidence({ truth: [START, { ...SPEND, tokens: 12 }] }),
  ],
  ["brokenSessions", 1, "a gap in the iterations", withResult({ iteration: 2 })],
  [
    "brokenSessions",
    1,
    "an attempt that was told of a turn too many",
    evidence({ truth: [{ ...START, seen: 1 }, SPEND] }),
  ],
  ["brokenSessions", 1, "a session that was not counted on", withSession({ iteration: 0 })],
  ["brokenSessions", 1, "a session without the messages of a turn", withSession({ messages: [] })],
  ["brokenSessions", 1, "a turn's messages that begin in the middle", withSession({ messages: [MESSAGES.slice(3)] })],
  [
    "danglingToolCalls",
    1,
    "a Result with a call and no result",
    withResult({ messages: MESSAGES.filter(({ role }) => role !== "tool") }),
  ],
  [
    "danglingToolCalls",
    1,
    "a session with a result of no call",
    withSession({ messages: [[MESSAGES[0], MESSAGES[2]] as Message[]] }),
  ],
  [
    "danglingToolCalls",
    1,
    "a tool that was started and never ended",
    doctored({ events: EVENTS.filter(({ type }) => type !== "tool_end") }),
  ],
  [
    "orphans",
    1,
    "a process that is left",
    evidence({ orphans: [{ pid: 7, mark: "store/module/one/1/w", command: "sleep" }] }),
  ],
  ["leakedSlots", 1, "a job that stays active", withLane({ active: ["one"] })],
  ["leakedSlots", 1, "a lock that is held", withLane({ locks: ["{turnq:module}:module:one:lock"] })],
  ["leakedSlots", 1, "a lease that is held", withLane({ leases: ["one#1"] })],
  [
    "leakedSlots",
    2,
    "fewer turns at once than there are slots",
    evidence({ slots: [{ what: "over all workers", due: 4, got: 2 }] }),
  ],
  ["leakedSlots", 1, "a worker that says that it runs something", evidence({ running: 1 })],
  ["leakedSlots", 1, "a worker that hung", evidence({ workerFaults: ["worker 7 did not end"] })],
];

test("the judge has nothing to say of a run in which all is well", () => {
  const { figures, violations } = judge(evidence());
  expect(violations).toEqual([]);
  expect(Object.values(figures).every((figure) => figure === 0)).toBe(true);
});

test.each(CASES)("the judge sees %s %i: %s", (verdict, amount, _what, broken) => {
  const { figures, violations } = judge(broken);
  expect([...new Set(violations.map((violation) => violation.verdict))]).toEqual([verdict]);
  expect(figures[verdict]).toBe(amount);
});

test("the judge takes a turn that ran after the one behind it for a broken session", () => {
  const second = result({ turn: "two", iteration: 2 });
  const two = turn({
    id: "two",
    results: [{ generation: 1, digest: "d", result: second }],
    seen: [{ generation: 1, digest: "d", settledAt: 150 }],
  });
  const truth: TruthLine[] = [
    ...TRUTH,
    { what: "start", turn: "two", attempt: 1, at: 120, pid: 7, iteration: 2, seen: 1 },
    { what: "spend", turn: "two", attempt: 1, tokens: 10 },
  ];
  const session = { ...SESSION, turns: ["one", "two"], iteration: 2, messages: [MESSAGES, MESSAGES] };
  const { figures, violations } = judge(evidence({ turns: [turn(), two], sessions: [session], truth }));
  expect(violations.map(({ text }) => text)).toEqual(["session s: turn two was settled before the one ahead of it"]);
  expect(figures.brokenSessions).toBe(1);
});

test("the judge takes a process that goes on beside the next attempt for an orphan; agents inside of a worker may", () => {
  const attempts = [attempt({ usage: usage(10, "partial") }), attempt({ attempt: 2 })];
  const both = events(...EVENTS).map((event): TurnEvent => ({ ...event, attempt: 2 }));
  const two = (lane: string): TurnEvidence =>
    turn({
      lane,
      session: undefined,
      attempts,
      events: [...EVENTS.slice(0, -1), ...both],
      results: [{ generation: 1, digest: "d", result: result({ usage: usage(20, "partial"), attempts }) }],
    });
  const truth: TruthLine[] = [START, { ...START, attempt: 2, at: 150 }, SPEND, { ...SPEND, attempt: 2 }];
  const judged = (lane: string): number =>
    judge(evidence({ turns: [two(lane)], sessions: [], truth })).violations.length;
  expect(judged("command")).toBe(1);
  expect(judged("inline")).toBe(0);
});

test("tokens that an attempt says it may lack are told, and are no violation", () => {
  const lacking = attempt({ status: "lost", usage: usage(10, "partial") });
  const known = result({ usage: usage(10, "partial"), attempts: [lacking] });
  const { figures, violations } = judge(
    evidence({
      turns: [turn({ attempts: [lacking], results: [{ generation: 1, digest: "d", result: known }] })],
      truth: [START, { ...SPEND, tokens: 15 }],
    }),
  );
  expect(violations).toEqual([]);
  expect(figures.usageGapTokens).toBe(5);
});
