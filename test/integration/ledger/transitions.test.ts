import { afterAll, beforeAll, expect, test } from "vitest";
import { mayMove, TRANSITIONS, TurnState, type Move } from "../../../src/domain/lifecycle.ts";
import { checkLane } from "../../check-lane.ts";
import { closing, settlement, TestLane, testEvents, testRecord, unrun, type Run } from "../../lane.ts";
import { throwAwayRedis, type ThrowAwayRedis } from "../../redis.ts";

let server: ThrowAwayRedis;
let lane: TestLane;
beforeAll(async () => {
  server = await throwAwayRedis({ appendfsync: "no" });
  lane = await TestLane.open(server.url);
});
afterAll(async () => {
  await lane.close();
  await server.stop();
});

let turns = 0;

interface Subject {
  readonly id: string;
  /** Its last begin, for the scripts that need the facts. */
  readonly run: Run | undefined;
}

/** A turn in a state, brought there by the scripts alone. */
const SUBJECTS: Readonly<Record<TurnState, () => Promise<Subject>>> = {
  waiting: async () => ({ id: await submitted(), run: undefined }),
  parked: async () => {
    const session = `s${turns}`;
    await submitted(session);
    return { id: await submitted(session), run: undefined };
  },
  running: async () => {
    const id = await submitted();
    return { id, run: await lane.run(id) };
  },
  stopping: async () => {
    const id = await submitted();
    const run = await lane.run(id);
    await lane.ledger.cancel(unrun(await lane.ledger.facts(id)));
    return { id, run: { ...run, facts: await lane.ledger.facts(id) } };
  },
  delayed: async () => {
    const id = await submitted();
    const run = await lane.run(id);
    await lane.ledger.close(closing(run.facts, testRecord(run, { status: "crashed" })), {
      state: "delayed",
      afterMs: 60_000,
    });
    return { id, run };
  },
  settled: async () => {
    const id = await submitted();
    return { id, run: await lane.settled(id) };
  },
};

async function submitted(session?: string): Promise<string> {
  turns += 1;
  const id = `t${turns}`;
  expect(
    await lane.submit({ id, batch: { id: "b", sample: id, epoch: 1 }, ...(session === undefined ? {} : { session }) }),
  ).toEqual(["stored"]);
  return id;
}

/** Facts for a call that must be refused all the same. */
async function factsOf(subject: Subject): Promise<Pick<Run, "attempt" | "iteration" | "facts">> {
  return subject.run ?? { attempt: 1, iteration: 1, facts: await lane.ledger.facts(subject.id) };
}

/** Each script, called for a turn in whatever state it is, and the moves that it may make. */
const CALLS: readonly {
  readonly name: string;
  readonly moves: readonly Move[];
  readonly call: (subject: Subject) => Promise<unknown>;
}[] = [
  { name: "submit", moves: [], call: ({ id }) => lane.submit({ id, batch: { id: "b", sample: id, epoch: 1 } }) },
  {
    name: "wake",
    moves: ["wake"],
    call: async ({ id }) => lane.ledger.wake([(await lane.field(id, "session")) ?? ""]),
  },
  { name: "begin", moves: ["begin"], call: ({ id }) => lane.begin(id, "w2") },
  {
    name: "begin of a job that was told",
    moves: ["begin", "retry"],
    call: async ({ id }) => {
      await lane.redis.hset(lane.bull(id), "told", (await lane.field(id, "generation")) ?? "");
      return lane.begin(id, "w2");
    },
  },
  { name: "renew", moves: [], call: ({ id }) => lane.ledger.renew([{ turn: id, attempt: 1 }]) },
  {
    name: "append",
    moves: [],
    call: ({ id }) => lane.ledger.append(id, 1, testEvents(id, 1, 0, { type: "text_delta", text: "x" })),
  },
  {
    name: "close, back-off",
    moves: ["back_off"],
    call: async (subject) => {
      const begun = await factsOf(subject);
      return lane.ledger.close(closing(begun.facts, testRecord(begun, { status: "crashed" })), {
        state: "delayed",
        afterMs: 60_000,
      });
    },
  },
  {
    name: "close, hand back",
    moves: ["hand_back"],
    call: async (subject) => {
      const begun = await factsOf(subject);
      return lane.ledger.close(
        closing(begun.facts, testRecord(begun, { status: "interrupted" }), { spends: "nothing" }),
        { state: "waiting", afterMs: 0 },
      );
    },
  },
  {
    name: "settle",
    moves: ["settle"],
    call: async (subject) => {
      const begun = await factsOf(subject);
      return lane.ledger.settle(settlement(begun.facts, testRecord(begun)));
    },
  },
  {
    name: "late",
    moves: [],
    call: ({ id }) =>
      lane.bookLate(id, 1, undefined, { inputTokens: 1, modelCalls: 0, toolCalls: 0, known: "reported" }),
  },
  {
    name: "cancel",
    moves: ["stop", "settle"],
    call: async ({ id }) => lane.ledger.cancel(unrun(await lane.ledger.facts(id))),
  },
  {
    name: "cancel, expired",
    moves: ["settle"],
    call: async ({ id }) => lane.ledger.cancel(unrun(await lane.ledger.facts(id), { how: "expired" })),
  },
  { name: "phase", moves: ["stop"], call: ({ id }) => lane.ledger.notePhase(id, 1, "killed") },
  {
    name: "retry",
    moves: ["retry"],
    call: async ({ id }) => lane.openGeneration(id, Number(await lane.field(id, "generation")), `n${turns}`),
  },
];

const seen = new Set<string>();

for (const from of TurnState.options) {
  for (const { name, moves, call } of CALLS) {
    test(`from ${from}, ${name} makes no transition but those of the table`, async () => {
      const subject = await SUBJECTS[from]();
      expect(await lane.state(subject.id)).toBe(from);
      await call(subject);
      const to = TurnState.parse(await lane.state(subject.id));
      if (to !== from) {
        // A manual retry opens the generation and begins it in one call.
        const steps =
          moves.includes("retry") && moves.includes("begin")
            ? retryThenBegin(from, to)
            : moves.filter((move) => mayMove(from, move, to));
        expect(steps, `${from} → ${to}`).not.toEqual([]);
        for (const move of steps) seen.add(`${from} ${move} ${to}`);
      }
      expect(await checkLane(lane.redis, lane.name)).toEqual([]);
    });
  }
}

function retryThenBegin(from: TurnState, to: TurnState): Move[] {
  if (mayMove(from, "begin", to)) return ["begin"];
  const between = (TRANSITIONS[from].retry ?? []).filter((state) => mayMove(state, "begin", to));
  return between.length > 0 ? ["retry", "begin"] : [];
}

test("a parked turn that becomes the head is woken", async () => {
  await lane.submit({ id: "h1", session: "head" }, { id: "h2", session: "head" });
  expect(await lane.state("h2")).toBe("parked");
  await lane.settled("h1");
  expect(await lane.state("h2")).toBe("waiting");
  expect(mayMove("parked", "wake", "waiting")).toBe(true);
  seen.add("parked wake waiting");
});

test("a turn that a shutdown stops is handed back, or backs off: only nothing follows a cancel", async () => {
  for (const [status, move, next] of [
    ["interrupted", "hand_back", { state: "waiting", afterMs: 0 }],
    ["crashed", "back_off", { state: "delayed", afterMs: 60_000 }],
  ] as const) {
    const id = await submitted();
    const run = await lane.run(id);
    await lane.ledger.notePhase(id, 1, "stopping");
    expect(await lane.ledger.row(id)).toMatchObject({ state: "stopping", cancel: undefined });
    expect(await lane.ledger.close(closing(run.facts, testRecord(run, { status })), next)).toBe("closed");
    expect(await lane.state(id)).toBe(next.state);
    expect(mayMove("stopping", move, next.state)).toBe(true);
    seen.add(`stopping ${move} ${next.state}`);
  }
});

test("a parked turn whose own delay still runs is delayed when it becomes the head, and woken when it is over", async () => {
  await lane.submit({ id: "l1", session: "later" }, { id: "l2", session: "later", delayMs: 60_000 });
  await lane.settled("l1");
  expect(await lane.state("l2")).toBe("delayed");
  seen.add("parked wake delayed");
  await lane.redis.hset(lane.key("row", "l2"), "dueAt", 1);
  await lane.ledger.wake(["later"]);
  expect(await lane.state("l2")).toBe("waiting");
  seen.add("delayed wake waiting");
});

test("a retried turn of a busy session is parked", async () => {
  await lane.submit({ id: "r1", session: "busy" }, { id: "r2", session: "busy" });
  await lane.settled("r1");
  await lane.openGeneration("r1", 1, "n");
  expect(await lane.state("r1")).toBe("parked");
  seen.add("settled retry parked");
});

test("every transition of the table was seen, but those that the scripts of this version never make", () => {
  const all = TurnState.options.flatMap((from) =>
    Object.entries(TRANSITIONS[from]).flatMap(([move, states]) => states.map((to) => `${from} ${move} ${to}`)),
  );
  const notYet = ["parked begin running"];
  expect(all.filter((step) => !seen.has(step)).toSorted()).toEqual(notYet.toSorted());
});
