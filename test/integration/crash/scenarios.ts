import { writeFileSync } from "node:fs";
import type { Action } from "../../../src/agents/scripted/script.ts";
import { failure } from "../../../src/domain/failure.ts";
import type { TurnRequest } from "../../../src/domain/turn-request.ts";
import { finishAttempt } from "../../../src/queue/finish-attempt.ts";
import { rebuildLost } from "../../../src/queue/lost-attempt.ts";
import { SILENT } from "../../../src/telemetry/log.ts";
import type { Act, Work } from "../../fixtures/crash/party.ts";
import { until } from "../queue/scene.ts";
import { disorder, tidy } from "./disorder.ts";
import {
  call,
  cancelAsPerson,
  come,
  forAWhile,
  lose,
  request,
  run,
  seen,
  settled,
  submit,
  waiting,
  WORK,
  type Stage,
} from "./stage.ts";

export interface Scenario {
  readonly name: string;
  /** Its turns; each must be settled in the end. */
  readonly turns: readonly string[];
  /** Turns with a second generation. */
  readonly retried?: readonly string[];
  readonly session?: string;
  /** What there is before the process starts that is to die. */
  readonly before?: (stage: Stage) => Promise<unknown>;
  readonly acts: (stage: Stage) => readonly Act[];
  /** What happens elsewhere while that process runs. */
  readonly during?: (stage: Stage) => Promise<unknown>;
  /** What whoever asked does after a death: asks again. */
  readonly again?: (stage: Stage) => Promise<unknown>;
  /** What else must hold in the end. */
  readonly finally?: (stage: Stage) => Promise<unknown>;
  /** How the worker is that takes over. */
  readonly work?: (stage: Stage) => Work;
}

/** Requests of one call: two of a session, and two of a batch. */
function several(stage: Stage): TurnRequest[] {
  const batch = (sample: string): TurnRequest => {
    const { id: _made, ...rest } = request(stage, sample, { batch: { id: stage.lane, sample, epoch: 1 } });
    return rest;
  };
  return [
    request(stage, "t1", { session: stage.lane }),
    request(stage, "t2", { session: stage.lane }),
    batch("a"),
    batch("b"),
  ];
}

export const SCENARIOS: readonly Scenario[] = [
  {
    name: "one turn",
    turns: ["t1"],
    before: (stage) => submit(stage, request(stage, "t1")),
    acts: () => [WORK],
  },
  {
    name: "a retry",
    turns: ["t1"],
    before: (stage) =>
      submit(stage, request(stage, "t1", { script: { "1": [run(stage), ...call(stage, 5), { crash: "boom" }] } })),
    acts: () => [WORK],
  },
  {
    name: "a crash for good",
    turns: ["t1"],
    before: (stage) =>
      submit(
        stage,
        request(stage, "t1", {
          script: { "*": [run(stage), ...call(stage, 5), { crash: "boom" }] },
          retry: { maxAttempts: 1, maxCrashes: 20 },
        }),
      ),
    acts: () => [WORK],
  },
  {
    name: "handed back at a shutdown",
    turns: ["t1"],
    before: (stage) =>
      submit(
        stage,
        request(stage, "t1", {
          script: {
            "1": [run(stage), ...call(stage, 5), { append: stage.cue, line: "stop" }, ...forAWhile()],
          },
        }),
      ),
    acts: (stage) => [WORK, { do: "close", when: stage.cue }],
  },
  {
    name: "a session whose second turn comes too early",
    turns: ["t1", "t2", "t3"],
    session: "s",
    before: async (stage) => {
      const session = `s-${stage.lane}`;
      const first: Action[] = [run(stage), { waitFor: stage.cue }, ...call(stage, 5), { say: "first" }];
      await submit(
        stage,
        request(stage, "t1", { session, script: { "*": first } }),
        request(stage, "t2", { session }),
        request(stage, "t3", { session }),
      );
      await (await stage.scene.queue(stage.lane).getJob("t2"))?.promote();
    },
    acts: () => [WORK],
    during: async (stage) => {
      await seen(stage, "run t1 1");
      await come(stage, async () => {
        const [ats, delayed] = await Promise.all([
          stage.scene.redis.hget(stage.scene.bull(stage.lane, "t2"), "ats"),
          stage.scene.redis.zscore(stage.scene.bull(stage.lane, "delayed"), "t2"),
        ]);
        return ats !== null && delayed !== null;
      });
      writeFileSync(stage.cue, "");
    },
    again: (stage) => Promise.resolve(writeFileSync(stage.cue, "")),
  },
  {
    name: "cancelled while it runs",
    turns: ["t1"],
    before: (stage) => submit(stage, request(stage, "t1", { script: { "*": waiting(stage) } })),
    acts: () => [WORK],
    during: async (stage) => {
      await seen(stage, "spent t1 1 5");
      await cancelAsPerson(stage, "t1");
    },
    again: (stage) => cancelAsPerson(stage, "t1"),
  },
  {
    name: "an attempt that another worker lost",
    turns: ["t1"],
    before: async (stage) => {
      await submit(stage, request(stage, "t1"));
      await lose(stage, "t1");
    },
    acts: () => [WORK],
  },
  {
    name: "not started in time",
    turns: ["t1"],
    before: async (stage) => {
      await submit(stage, request(stage, "t1", { expiresInMs: 1 }));
      await until(async () => (await stage.scene.ledger(stage.lane).expired(1)).length === 1);
    },
    acts: () => [{ do: "work", upkeepEveryMs: 60_000 }],
  },
  {
    name: "refused by a rate limit",
    turns: ["t1"],
    before: (stage) => {
      const refusal = failure("rate_limited", "429", { retryAt: Date.now() + 800 });
      return submit(
        stage,
        request(stage, "t1", { script: { "1": [run(stage), ...call(stage, 5), { fail: refusal }] } }),
      );
    },
    acts: () => [WORK],
  },
  {
    name: "a later generation",
    turns: ["t1"],
    retried: ["t1"],
    before: async (stage) => {
      await submit(stage, request(stage, "t1"));
      await settled(stage, "t1");
      await stage.scene.turnq.retry(await stage.scene.turnq.turn("t1", { lane: stage.lane }));
    },
    acts: () => [WORK],
  },
  {
    name: "a producer that retries",
    turns: ["t1"],
    retried: ["t1"],
    before: async (stage) => {
      await submit(stage, request(stage, "t1"));
      await settled(stage, "t1");
    },
    acts: () => [{ do: "retry", turn: "t1" }],
    again: async (stage) => {
      const turn = await stage.scene.turnq.turn("t1", { lane: stage.lane });
      if ((await turn.row()).generation === 1) await stage.scene.turnq.retry(turn);
    },
  },
  {
    name: "a producer that submits",
    turns: ["t1", "t2", "LANE:a:LANE:1", "LANE:b:LANE:1"],
    session: "",
    acts: (stage) => [{ do: "submit", requests: several(stage) }],
    again: (stage) => submit(stage, ...several(stage)),
  },
  {
    name: "a cancel of what waits",
    turns: ["t1", "t2"],
    session: "s",
    before: (stage) => {
      const session = `s-${stage.lane}`;
      return submit(stage, request(stage, "t1", { session }), request(stage, "t2", { session }));
    },
    acts: () => [{ do: "cancel", turn: "t1" }],
    again: (stage) => cancelAsPerson(stage, "t1"),
  },
  {
    name: "a cancel of what a dead worker runs",
    turns: ["t1"],
    before: async (stage) => {
      await submit(stage, request(stage, "t1"));
      await lose(stage, "t1");
    },
    acts: () => [{ do: "cancel", turn: "t1" }],
    again: (stage) => cancelAsPerson(stage, "t1"),
  },
  {
    name: "an attempt that was taken over and ends late",
    turns: ["t1"],
    before: (stage) => {
      const [announced, paid] = [[{ call: true }, { waitFor: stage.cue }], call(stage, 7).slice(1)];
      const late = [run(stage), ...call(stage, 5), ...announced, ...paid, { say: "late" }];
      return submit(stage, request(stage, "t1", { script: { "1": late as Action[] } }));
    },
    acts: () => [WORK],
    during: async (stage) => {
      await seen(stage, "spent t1 1 5");
      const ledger = stage.scene.ledger(stage.lane);
      await come(
        stage,
        async () => (await ledger.events("t1", 1, 0))?.events.filter(({ type }) => type === "call_start").length === 2,
      );
      const lost = await rebuildLost(ledger, await ledger.facts("t1"), 1, true);
      const worker = { log: SILENT, givenUp: AbortSignal.abort(), score: () => null };
      await finishAttempt({ ledger, worker }, lost);
      writeFileSync(stage.cue, "");
    },
    again: (stage) => Promise.resolve(writeFileSync(stage.cue, "")),
  },
  {
    name: "a long attempt",
    turns: ["t1"],
    before: (stage) => {
      const long: Action[] = [run(stage), ...call(stage, 5), { wait: 2700 }, { say: "at last" }];
      return submit(stage, request(stage, "t1", { script: { "1": long } }));
    },
    acts: () => [WORK],
  },
  {
    name: "two lanes with one slot",
    turns: ["t1"],
    before: async (stage) => {
      const slow: Action[] = [run(stage), ...call(stage, 5), { wait: 200 }, { say: "x" }];
      await submit(stage, request(stage, "t1", { script: { "*": slow } }));
      const other = { ...stage, lane: `${stage.lane}-2` };
      await submit(other, request(other, "u1", { script: { "*": slow } }));
    },
    acts: (stage) => [{ do: "work", second: `${stage.lane}-2`, concurrency: 1 }],
    work: (stage) => ({ do: "work", second: `${stage.lane}-2`, concurrency: 1 }),
    finally: (stage) => stage.scene.told(`${stage.lane}-2`, "u1"),
  },
  {
    name: "a lane that is out of order",
    turns: ["t1", "gone", "batch-LANE:a:LANE:1"],
    before: disorder,
    acts: (stage) => [
      {
        do: "work",
        upkeepEveryMs: 100,
        laneConcurrency: { [stage.lane]: 2 },
        laneLimits: { [stage.lane]: { requestsPerMinute: 60_000 } },
      },
    ],
    during: (stage) => come(stage, () => tidy(stage)),
    finally: (stage) => until(() => tidy(stage), `the order of ${stage.lane}`),
  },
  {
    name: "the store's lists",
    turns: ["t1"],
    session: "s",
    before: async (stage) => {
      await submit(stage, request(stage, "t1", { session: `s-${stage.lane}` }));
      await settled(stage, "t1");
    },
    acts: (stage) => [{ do: "republish" }, { do: "listWorkers" }, { do: "rebind", session: `s-${stage.lane}` }],
  },
];

/** The names of a scenario's turns in a lane. */
export function turnsOf({ turns }: Scenario, lane: string): string[] {
  return turns.map((turn) => turn.replaceAll("LANE", lane));
}

/** The session of a scenario in a lane; the lane's own name is one too. */
export function sessionOf({ session }: Scenario, lane: string): string | undefined {
  if (session === undefined) return undefined;
  return session === "" ? lane : `${session}-${lane}`;
}
